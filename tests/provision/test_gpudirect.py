"""Will this workload get its fabric: the answer, and what is missing."""

from __future__ import annotations

import yaml

from gpuyard.provision import Artefact
from gpuyard.provision.invariants.needs import NEEDS

from .trees import GONE, Change, changed, check, rules, sample

POD = "spec.replicatedJobs[0].template.spec.template"


def reach(name: str, change: Change) -> tuple[str, tuple[str, ...]]:
    """Verdict and missing needs of the only workload."""
    (found,) = check(changed(sample(name), change)).fabrics
    return found.verdict, found.missing


def test_whole_workloads_get_their_fabric() -> None:
    assert reach("jobset-a3mega.yaml", {}) == ("yes", ())
    assert reach("jobset-a4.yaml", {}) == ("yes", ())
    (found,) = check(sample("jobset-a4x.yaml")).fabrics
    assert (found.verdict, found.machine, found.fabric) == ("yes", "a4x-highgpu-4g", "GPUDirect RDMA")


def test_a_workload_without_its_daemon_does_not() -> None:
    verdict, missing = reach("jobset-a3mega.yaml", {f"{POD}.spec.initContainers": GONE})
    assert verdict == "no"
    assert missing[:2] == ("the TCPXO daemon (RxDM)", "the daemon's capabilities")


def test_every_need_of_tcpxo_is_noticed_when_it_is_missing() -> None:
    spec, annotations = f"{POD}.spec", f"{POD}.metadata.annotations"
    daemon, worker = f"{spec}.initContainers[0]", f"{spec}.containers[0]"
    changes: list[Change] = [
        {f'{annotations}."networking.gke.io/interfaces"': '[{"interfaceName":"eth0","network":"default"}]'},
        {f'{annotations}."networking.gke.io/default-interface"': GONE},
        {f"{daemon}.image": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.12"},
        {f"{daemon}.securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}},
        {f'{annotations}."devices.gke.io/container.tcpxo-daemon"': "- path: /dev/nvidia0\n"},
        {f"{daemon}.volumeMounts[1]": GONE},
        {f"{worker}.volumeMounts[0]": GONE},
        {f"{worker}.volumeMounts[2]": GONE},
        {f"{worker}.args": ["torchrun train.py"]},
        {f'{worker}.resources.limits."nvidia.com/gpu"': 4, f'{spec}.nodeSelector."node.kubernetes.io/instance-type"': "a3-megagpu-8g"},
    ]  # fmt: skip
    assert len(changes) == len(NEEDS["tcpxo"])
    for need, change in zip(NEEDS["tcpxo"], changes, strict=True):
        verdict, missing = reach("jobset-a3mega.yaml", change)
        assert need.name in missing
        assert verdict == ("no" if need.is_hard else "unsure")


def test_several_nodes_without_a_trace_of_the_fabric_are_a_warning() -> None:
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
                        "containers": [{"name": "x", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
                    }
                },
            },
        }
    )
    found = check(Artefact(name="x.yaml", text=text))
    (finding,) = (finding for finding in found.findings if finding.rule == "fabric-reached")
    assert finding.severity == "warning"
    assert "NCCL runs over TCP sockets" in finding.what
    assert [each.verdict for each in found.fabrics] == ["no"]


def test_one_node_needs_no_fabric() -> None:
    change: Change = {
        "spec.replicatedJobs[0].template.spec.parallelism": 1,
        "spec.replicatedJobs[0].template.spec.completions": 1,
        f"{POD}.metadata": GONE,
        f"{POD}.spec.initContainers": GONE,
    }
    found = check(changed(sample("jobset-a3mega.yaml"), change))
    assert found.fabrics == ()
    assert rules(found) == set()


def test_the_daemon_among_the_containers_of_a_job_never_ends() -> None:
    artefact = sample("jobset-a3mega.yaml")
    documents = list(yaml.safe_load_all(artefact.text))
    spec = documents[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec["containers"] += spec.pop("initContainers")
    found = check(Artefact(name="x.yaml", text=yaml.safe_dump_all(documents)))
    assert "daemon-sidecar" in rules(found)
    assert [each.verdict for each in found.fabrics] == ["yes"]
