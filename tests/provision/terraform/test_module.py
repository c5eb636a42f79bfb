"""Terraform modules: what the provider accepts, equal to the API requests, quoted by construction."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.provision import provision, write_deployment
from gpuyard.app.workspace import open_workspace
from gpuyard.blueprint.blueprint import Shape
from gpuyard.blueprint.make import make_blueprint
from gpuyard.cli.main import main
from gpuyard.errors import Infeasible, InputError
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.terraform.hcl import quoted
from gpuyard.provision.terraform.module import MAIN
from gpuyard.provision.terraform.resource import resources_of
from gpuyard.workload.where import ConsumptionName

from ..platforms.rendering import SETTINGS, at, blueprint_of, body_of, catalog
from .modules import main_of, problems, resources, terraform_of, text_of

Sample = tuple[str, str, Shape, ConsumptionName | None]
SAMPLES: tuple[Sample, ...] = (
    ("gke", "a3-megagpu-8g", "multi-node", "reservation"),
    ("gke", "a3-ultragpu-8g", "multi-node", "flex-start"),
    ("gke", "ct6e-standard-4t", "multi-node", "on-demand"),
    ("gke", "g2-standard-4", "service", "spot"),
    ("compute-engine", "a2-highgpu-1g", "single-node", "spot"),
    ("compute-engine", "a3-ultragpu-8g", "multi-node", "flex-start"),
    ("compute-engine", "a3-megagpu-8g", "multi-node", "reservation"),
    ("compute-engine", "g2-standard-4", "service", "on-demand"),
    ("compute-engine", "g2-standard-8", "workstations", "on-demand"),
    ("cloud-run", "g2-standard-4", "service", "on-demand"),
    ("cloud-run", "g2-standard-4", "single-node", "on-demand"),
    ("cluster-director", "a3-ultragpu-8g", "multi-node", "spot"),
)
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
PARTS = (
    "${", "%{", "$", "$${", "%%{", "}", "\\", '"', "'", "\n", "\t", "\x08", "\x7f", "é", "😀", "EOT",
    "<<EOT", "#", "//", "\\u0041", "${path.module}", "~}", "a",
)  # fmt: skip


def sample_main(sample: Sample, flags: DeploymentSettings = SETTINGS) -> str:
    platform = platform_named(sample[0])
    assert platform is not None
    artefacts = terraform_of(platform, blueprint_of(*sample[1:]), flags)
    assert artefacts is not None
    return main_of(artefacts)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: "-".join(map(str, sample)))
def test_provider_accepts_every_argument_and_reference(sample: Sample) -> None:
    assert not list(problems(sample_main(sample)))


def test_machines_wait_for_what_no_argument_names() -> None:
    module = resources(sample_main(("gke", "a3-megagpu-8g", "multi-node", "reservation")))
    pool = module["google_container_node_pool.work"]
    assert "${google_compute_router_nat.net_0_nat}" in pool["depends_on"]  # type: ignore[operator]
    # The cluster is named by an argument.
    assert pool["cluster"] == "${google_container_cluster.main.name}"
    assert "${google_container_cluster.main}" not in pool["depends_on"]  # type: ignore[operator]


def test_node_pool_has_lifetime_labels_and_reservation_of_the_request() -> None:
    sample = ("gke", "a3-megagpu-8g", "multi-node", "reservation")
    platform = platform_named("gke")
    assert platform is not None
    artefacts = terraform_of(platform, blueprint_of(*sample[1:]))  # type: ignore[arg-type]
    assert artefacts is not None
    config = at(body_of(artefacts, "30-pool-work.json"), "nodePool", "config")
    pool = resources(main_of(artefacts))["google_container_node_pool.work"]
    node = pool["node_config"][0]  # type: ignore[index]
    assert text_of(node["max_run_duration"]) == at(config, "maxRunDuration")
    assert {key: text_of(value) for key, value in node["resource_labels"].items()} == at(
        config, "resourceLabels"
    )
    affinity = node["reservation_affinity"][0]
    assert [text_of(value) for value in affinity["values"]] == at(
        config, "reservationAffinity", "values"
    )
    assert node["guest_accelerator"][0]["count"] == 8


def test_spot_machine_is_preemptible_and_ends_with_its_ttl() -> None:
    module = resources(sample_main(("compute-engine", "a2-highgpu-1g", "single-node", "spot")))
    (scheduling,) = module["google_compute_instance.main"]["scheduling"]  # type: ignore[misc]
    assert scheduling["preemptible"] is True
    assert scheduling["max_run_duration"][0]["seconds"] > 0
    assert text_of(scheduling["instance_termination_action"]) == "DELETE"


def test_request_that_the_provider_has_no_place_for_is_an_error() -> None:
    with pytest.raises(ValueError, match="mtuu"):
        resources_of("compute.networks.insert", {}, {"name": "n", "mtuu": 1}, "n")


def test_platform_without_resources_of_the_provider_is_refused() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node", "reservation")
    flags = replace(SETTINGS, format="terraform")
    with pytest.raises(InputError, match="kubernetes"):
        provision(blueprint, "kubernetes", flags, catalog())


def test_hostile_settings_stay_values() -> None:
    hostile = 'zq"${file("/etc/passwd")}%{if true}\n'
    flags = replace(SETTINGS, bucket="", zone=hostile, reservation=hostile, network=hostile)
    sample: Sample = ("gke", "a3-megagpu-8g", "multi-node", "reservation")
    module = resources(sample_main(sample, replace(flags, zone="us-central1-a", network="")))
    node = module["google_container_node_pool.work"]["node_config"][0]  # type: ignore[index]
    (value,) = node["reservation_affinity"][0]["values"]
    # A text of several lines is read from a file, whose name has no character of it.
    assert value == '${file("${path.module}/work-values.sh")}'


@pytest.mark.skipif(shutil.which("terraform") is None, reason="needs terraform")
def test_terraform_evaluates_hostile_text_to_itself(tmp_path: Path) -> None:
    texts = ["".join(parts) for parts in itertools.product(PARTS, repeat=2)]
    literals = ", ".join(quoted(text) for text in texts)
    (tmp_path / "main.tf").write_text(f'output "x" {{\n  value = [{literals}]\n}}\n')
    run_terraform(tmp_path, "apply", "-auto-approve")
    assert json.loads(run_terraform(tmp_path, "output", "-json", "x")) == texts


@pytest.mark.skipif(shutil.which("terraform") is None, reason="needs terraform")
@pytest.mark.parametrize("sample", [SAMPLES[0], SAMPLES[7], SAMPLES[9]], ids=lambda row: row[0])
def test_terraform_validates_and_formats_a_rendered_folder(sample: Sample, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    flags = replace(SETTINGS, format="terraform")
    deployment = provision(blueprint_of(*sample[1:]), sample[0], flags, catalog())
    for file in deployment.files:  # type: ignore[union-attr]
        path = tmp_path / "deploy" / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    environment = with_provider(tmp_path)
    folder = tmp_path / "deploy" / "terraform"
    answer = json.loads(run_terraform(folder, "validate", "-json", environment=environment))
    assert answer["valid"], answer["diagnostics"]
    assert run_terraform(folder, "fmt", "-check") == ""


def with_provider(folder: Path) -> dict[str, str]:
    """A configuration in which hashicorp/google is the server of the shipped schema."""
    plugin = folder / "plugin" / "terraform-provider-google"
    plugin.parent.mkdir()
    server = Path(__file__).with_name("provider_server.py")
    source = Path(__file__).parents[3] / "src"
    plugin.write_text(f"#!/bin/sh\nPYTHONPATH='{source}' exec '{sys.executable}' '{server}'\n")
    plugin.chmod(0o755)
    rc = folder / "terraform.rc"
    rc.write_text(
        f'provider_installation {{\n  dev_overrides {{\n    "hashicorp/google" = "{plugin.parent}"'
        "\n  }\n}\n"
    )
    return {"TF_CLI_CONFIG_FILE": str(rc)}


def run_terraform(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ("terraform", *arguments),
        cwd=folder,
        env={**os.environ, "CHECKPOINT_DISABLE": "1", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder rendered for Terraform, and signed."""
    monkeypatch.setenv("GPUYARD_HOME", str(tmp_path / "home"))
    blueprint = blueprint_of("a2-highgpu-1g", "single-node", "spot")
    flags = replace(SETTINGS, format="terraform")
    deployment = provision(blueprint, "compute-engine", flags, catalog())
    write_deployment(tmp_path / "deploy", deployment.files)  # type: ignore[union-attr]
    return tmp_path / "deploy"


def test_readme_applies_with_terraform_and_destroys_with_it(folder: Path) -> None:
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "terraform -chdir=terraform init" in readme
    assert "terraform -chdir=terraform destroy" in readme
    assert "call.sh 10-net-0.json" not in readme


def test_lint_accepts_the_folder(folder: Path) -> None:
    assert main(["lint", str(folder)]) == 0


def test_apply_refuses_a_folder_for_terraform(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "9999"]) == 2
    assert "--format api" in capsys.readouterr().err


def test_module_with_a_state_is_not_replaced_by_requests(folder: Path) -> None:
    (folder / "terraform" / "terraform.tfstate").write_text("{}")
    blueprint = blueprint_of("a2-highgpu-1g", "single-node", "spot")
    requests = provision(blueprint, "compute-engine", SETTINGS, catalog())
    with pytest.raises(InputError, match="terraform destroy"):
        write_deployment(folder, requests.files)  # type: ignore[union-attr]
    assert (folder / MAIN).exists()


def test_signature_covers_the_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / MAIN).write_text((folder / MAIN).read_text() + "# changed\n")
    assert main(["provision", str(folder), "--destroy", "--yes"]) == 2
    assert f"{MAIN}: was changed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_provider_accepts_the_module_of_every_example_on_every_platform(file: Path) -> None:
    workspace = open_workspace(file)
    plan = plan_workload(workspace)
    assert not isinstance(plan, Infeasible)
    blueprint = make_blueprint(workspace.workload, plan, 1, workspace.catalog)
    count = 0
    for name in ("gke", "compute-engine", "cloud-run", "cluster-director"):
        platform = platform_named(name)
        assert platform is not None
        artefacts = terraform_of(platform, blueprint)
        if artefacts is not None:
            count += 1
            assert not list(problems(main_of(artefacts))), name
    assert (count > 0) == (blueprint.machine.provider == "google")
