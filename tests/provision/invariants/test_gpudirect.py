"""GPUDirect reachability: the verdict, and the missing requirements."""

from __future__ import annotations

import yaml

from gpuyard.provision.artefact import Artefact
from gpuyard.provision.invariants.fabric_requirements import REQUIREMENTS

from ..trees import GONE, Change, changed, check, rules, sample

POD = "spec.replicatedJobs[0].template.spec.template"


def access(name: str, change: Change) -> tuple[str, tuple[str, ...]]:
    (result,) = check(changed(sample(name), change)).fabrics
    return result.verdict, result.missing


def test_complete_workloads_reach_their_fabric() -> None:
    assert access("jobset-a3mega.yaml", {}) == ("yes", ())
    assert access("jobset-a4.yaml", {}) == ("yes", ())
    (result,) = check(sample("jobset-a4x.yaml")).fabrics
    assert (result.verdict, result.machine, result.fabric) == (
        "yes",
        "a4x-highgpu-4g",
        "GPUDirect RDMA",
    )


def test_workload_without_daemon_does_not_reach_fabric() -> None:
    verdict, missing = access("jobset-a3mega.yaml", {f"{POD}.spec.initContainers": GONE})
    assert verdict == "no"
    assert missing[:2] == ("the TCPXO daemon (RxDM)", "the daemon's capabilities")


def test_each_missing_tcpxo_requirement_is_reported() -> None:
    spec, annotations = f"{POD}.spec", f"{POD}.metadata.annotations"
    daemon, worker = f"{spec}.initContainers[0]", f"{spec}.containers[0]"
    changes: list[Change] = [
        {
            f'{annotations}."networking.gke.io/interfaces"': '[{"interfaceName":"eth0","network":"default"}]'
        },
        {f'{annotations}."networking.gke.io/default-interface"': GONE},
        {
            f"{daemon}.image": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.12"
        },
        {f"{daemon}.securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}},
        {f'{annotations}."devices.gke.io/container.tcpxo-daemon"': "- path: /dev/nvidia0\n"},
        {f"{daemon}.volumeMounts[1]": GONE},
        {f"{worker}.volumeMounts[0]": GONE},
        {f"{worker}.volumeMounts[2]": GONE},
        {f"{worker}.args": ["torchrun train.py"]},
        {
            f'{worker}.resources.limits."nvidia.com/gpu"': 4,
            f'{spec}.nodeSelector."node.kubernetes.io/instance-type"': "a3-megagpu-8g",
        },
    ]
    assert len(changes) == len(REQUIREMENTS["tcpxo"])
    for requirement, change in zip(REQUIREMENTS["tcpxo"], changes, strict=True):
        verdict, missing = access("jobset-a3mega.yaml", change)
        assert requirement.name in missing
        assert verdict == ("no" if requirement.is_hard else "unsure")


def test_multi_node_job_without_fabric_setup_is_a_warning() -> None:
    text = yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "x"},
            "spec": {
                "parallelism": 2,
                "completions": 2,
                "completionMode": "Indexed",
                "ttlSecondsAfterFinished": 60,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-b200"},
                        "containers": [
                            {
                                "name": "x",
                                "image": "x",
                                "resources": {"limits": {"nvidia.com/gpu": 8}},
                            }
                        ],
                    }
                },
            },
        }
    )
    result = check(Artefact(name="x.yaml", text=text))
    (finding,) = (finding for finding in result.findings if finding.rule == "fabric-reached")
    assert finding.severity == "warning"
    assert "NCCL uses TCP sockets" in finding.what
    assert [row.verdict for row in result.fabrics] == ["no"]


def test_single_node_needs_no_fabric() -> None:
    change: Change = {
        "spec.replicatedJobs[0].template.spec.parallelism": 1,
        "spec.replicatedJobs[0].template.spec.completions": 1,
        f"{POD}.metadata": GONE,
        f"{POD}.spec.initContainers": GONE,
    }
    result = check(changed(sample("jobset-a3mega.yaml"), change))
    assert result.fabrics == ()
    assert rules(result) == {"node-count"}  # its command still waits for the others


def test_daemon_as_regular_container_of_a_job_is_an_error() -> None:
    artefact = sample("jobset-a3mega.yaml")
    documents = list(yaml.safe_load_all(artefact.text))
    spec = documents[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec["containers"] += spec.pop("initContainers")
    result = check(Artefact(name="x.yaml", text=yaml.safe_dump_all(documents)))
    assert "daemon-sidecar" in rules(result)
    assert [row.verdict for row in result.fabrics] == ["yes"]
