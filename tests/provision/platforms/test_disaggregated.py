"""Disaggregated serving: both pools, their addresses, and the router that finds them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.plan.disaggregation_router import router_command
from gpuyard.plan.service import EngineCommand, PrefillPool
from gpuyard.provision.cost_bound import max_machines
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms import PLATFORMS
from gpuyard.provision.platforms.gke.gke_platform import GKE
from gpuyard.provision.platforms.kubernetes.kubernetes_platform import KUBERNETES

from .rendering import (
    SETTINGS,
    at,
    blueprint_of,
    body_of,
    check,
    file_of,
    of_machines,
    render,
    render_artefacts,
)

PREFILL, DECODE = 4, 2  # replicas, of two and of four GPUs
ENGINES = {
    "vllm": "vllm serve model --tensor-parallel-size",
    "sglang": "python -m sglang.launch_server --model-path model --tp",
    "tensorrt-llm": "trtllm-serve model --tp_size",
}


def pools(machine: str = "a3-ultragpu-8g", engine: str = "vllm", chips: float = 4.0) -> Blueprint:
    blueprint = blueprint_of(machine, "service", None if machine.startswith("dgx") else "spot")
    service = blueprint.option.service
    assert service is not None
    line = ENGINES[engine]
    prefill = PrefillPool(
        replicas=PREFILL,
        chips_per_replica=2.0,
        tp=2,
        max_sequences_count=16,
        budget_tokens=8192,
        prefill_s=0.1,
        kv_transfer_s=0.01,
        engine=EngineCommand(name=engine, label=engine, command=(f"{line} 2",)),
        router=router_command(engine, PREFILL, DECODE),
    )
    decode = EngineCommand(name=engine, label=engine, command=(f"{line} 4",))
    service = replace(
        service, replicas=DECODE, chips_per_replica=chips, engine=decode, prefill=prefill
    )
    option = replace(blueprint.option, service=service)
    return of_machines(replace(blueprint, option=option), 2)


def objects(blueprint: Blueprint) -> dict[tuple[str, str], dict[str, Plain]]:
    """Return the objects by kind and by the end of their name."""
    artefacts = render_artefacts(GKE, blueprint)
    result = {}
    for item in yaml.safe_load_all(file_of(artefacts, "50-service.yaml").text):
        pool = str(item["metadata"]["name"]).rsplit("-", 1)[-1]
        result[item["kind"], pool if pool in ("prefill", "decode", "end") else ""] = item
    return result


@pytest.mark.parametrize("engine", ENGINES)
def test_pools_and_router_pass_the_checks(engine: str) -> None:
    artefacts = render_artefacts(GKE, pools(engine=engine))
    result = check(*artefacts.files)
    assert not result.errors
    assert not result.warnings
    assert not any("LeaderWorkerSet" in step.what for step in artefacts.steps)
    assert not any("autoscaler" in step.what for step in artefacts.steps)


def test_pools_have_planned_sizes_shares_of_the_nics_and_no_autoscaler() -> None:
    made = objects(pools())
    assert not any(kind == "HorizontalPodAutoscaler" for kind, _ in made)
    for pool, replicas, gpus in (("prefill", PREFILL, "2"), ("decode", DECODE, "4")):
        group = made["StatefulSet", pool]
        assert at(group, "spec", "replicas") == replicas
        container = at(group, "spec", "template", "spec", "containers", 0)
        assert at(container, "resources", "limits", "nvidia.com/gpu") == gpus
    counts = {
        at(item, "metadata", "name"): at(
            item, "spec", "spec", "devices", "requests", 0, "exactly", "count"
        )
        for item in yaml.safe_load_all(
            file_of(render_artefacts(GKE, pools()), "50-service.yaml").text
        )
        if item["kind"] == "ResourceClaimTemplate"
    }
    assert sorted(counts.values()) == [2, 4]  # type: ignore[type-var]


def test_decode_replicas_are_scheduled_first() -> None:
    made = objects(pools())
    name = at(made["PriorityClass", "decode"], "metadata", "name")
    decode = at(made["StatefulSet", "decode"], "spec", "template", "spec")
    assert at(decode, "priorityClassName") == name
    prefill = at(made["StatefulSet", "prefill"], "spec", "template", "spec")
    assert isinstance(prefill, dict)
    assert "priorityClassName" not in prefill


def test_router_waits_for_every_replica_and_lists_their_addresses(tmp_path: Path) -> None:
    made = objects(pools(engine="tensorrt-llm"))
    script = at(made["Deployment", ""], "spec", "template", "spec", "containers", 0, "command", 2)
    for name, text in (("curl", 'echo "$2" >>asked'), ("trtllm-serve", 'echo "$@"')):
        stub = tmp_path / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f"#!/bin/bash\n{text}\n")
        stub.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", str(script)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["disaggregated", "-c", "disagg.yaml"]
    config = yaml.safe_load((tmp_path / "disagg.yaml").read_text())
    hosts = [*config["context_servers"]["urls"], *config["generation_servers"]["urls"]]
    assert len(hosts) == PREFILL + DECODE
    asked = (tmp_path / "asked").read_text().split()
    assert sorted(asked) == sorted(f"http://{host}/health" for host in hosts)
    # Every address is that of a pod of a StatefulSet, behind its headless Service.
    for host in hosts:
        pod, _, service = host.removesuffix(":8000").partition(".")
        pool = service.rsplit("-", 1)[-1]
        assert at(made["StatefulSet", pool], "spec", "serviceName") == service
        assert at(made["Service", pool], "spec", "clusterIP") == "None"
        replicas = at(made["StatefulSet", pool], "spec", "replicas")
        assert isinstance(replicas, int)
        assert int(pod.removeprefix(f"{service}-")) < replicas


def test_service_address_leads_to_the_router_and_everything_ends() -> None:
    made = objects(pools())
    selector = at(made["Service", ""], "spec", "selector")
    assert selector == at(made["Deployment", ""], "spec", "selector", "matchLabels")
    command = str(made["CronJob", "end"])
    for target in ("statefulsets.apps/", "deployments.apps/"):
        assert target in command


def test_pool_of_nodes_and_cost_have_the_planned_machines() -> None:
    blueprint = pools()
    assert max_machines(blueprint) == 2
    pool = body_of(render_artefacts(GKE, blueprint), "30-pool-work.json")
    assert at(pool, "nodePool", "autoscaling", "totalMaxNodeCount") == 2


def test_replicas_of_several_machines_are_groups_with_the_same_addresses() -> None:
    blueprint = pools(chips=16.0)
    service = blueprint.option.service
    assert service is not None
    line = f"{ENGINES['vllm']} 8 --nnodes 2 --master-addr $HEAD --node-rank"
    engine = replace(service.engine, command=(f"{line} 0", f"{line} 1 --headless"))
    option = replace(blueprint.option, service=replace(service, engine=engine))
    blueprint = of_machines(replace(blueprint, option=option), 5)
    made = objects(blueprint)
    group = made["LeaderWorkerSet", "decode"]
    assert at(group, "spec", "leaderWorkerTemplate", "size") == 2
    assert ("Service", "decode") not in made  # the controller makes it
    artefacts = render_artefacts(GKE, blueprint)
    assert any("LeaderWorkerSet" in step.what for step in artefacts.steps)
    assert not check(*artefacts.files).errors


def test_kv_caches_use_the_host_nic_where_rdma_is_missing() -> None:
    artefacts = render_artefacts(GKE, pools("a3-megagpu-8g"))
    assert any("KV caches cross the host NIC" in note for note in artefacts.notes)
    assert "ResourceClaimTemplate" not in file_of(artefacts, "50-service.yaml").text


def test_other_platforms_name_one_that_routes() -> None:
    for platform in PLATFORMS:
        result = render(platform, pools())
        if platform.name in ("gke", "kubernetes"):
            assert not isinstance(result, Unsuitable)
            continue
        assert isinstance(result, Unsuitable), platform.name
        assert result.nearest == "gke", platform.name
    ray = render(KUBERNETES, pools(), replace(SETTINGS, ray=True))
    assert isinstance(ray, Unsuitable)
    assert "--ray" in ray.nearest_why


def test_own_machines_refuse_replicas_that_share_the_ports_of_a_host() -> None:
    result = render(KUBERNETES, pools("dgx-h100"), DeploymentSettings(rendered_s=1e9))
    assert isinstance(result, Unsuitable)
    assert "ports" in result.why
