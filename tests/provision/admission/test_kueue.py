"""Proof of admission for Kueue; two public issues replayed."""

from __future__ import annotations

from typing import Any

from gpuyard.provision.admission.admission import Admission
from gpuyard.provision.admission.cluster_state import cluster_state
from gpuyard.provision.admission.job_requests import job_requests
from gpuyard.provision.admission.kueue import kueue_admissions
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.file_kinds import read_documents

from .clusters import HOST, job, node, pod, queues, workload

CLIQUE = "nvidia.com/gpu.clique"


def admission(text: str, objects: list[dict[str, Any]]) -> Admission:
    documents, _ = read_documents(Artefact(name="job.yaml", text=text))
    (found,) = kueue_admissions(tuple(job_requests(documents)), cluster_state(objects))
    return found


def fragmented(*, low_on_one_node: bool = False) -> list[dict[str, Any]]:
    """Issue 5243: four nodes of 8 GPUs, six high-priority pods and two low-priority ones each."""
    objects = queues({"team": 32}, [HOST], withinClusterQueue="LowerPriority")
    for n in range(4):
        objects.append(node(f"n{n}", 8))
        high = 0 if low_on_one_node and n == 3 else 6
        for kind, count, priority in (("high", high, 1000), ("low", 8 - high, 1)):
            for i in range(count):
                name = f"{kind}-{n}-{i}"
                objects.append(workload(name, "team", 1, priority))
                objects.append(pod(name, name, f"n{n}", 1, priority))
    return objects


def test_preempted_gpus_on_several_nodes_hold_no_pod_of_a_whole_node() -> None:
    """kubernetes-sigs/kueue#5243: quota admits the job after preemption, and its pod stays pending."""
    result = admission(job("team", 8, preferred_topology=HOST), fragmented())
    assert result.verdict == "waits"
    assert "one node has at most 2 free, all have 8" in result.what
    assert "by quota alone it is admitted after preempting 8 workloads" in result.what
    moves, smaller = result.changes
    assert moves.startswith("wait for, or move, 6 workloads: high-")
    assert len({name.split("-")[1] for name in moves.split(": ")[1].split(", ")}) == 1
    assert smaller == "4 pods of 2 nvidia.com/gpu instead of 1 of 8"


def test_preemption_names_the_fewest_workloads_on_one_node() -> None:
    result = admission(job("team", 8, required_topology=HOST), fragmented(low_on_one_node=True))
    assert result.verdict == "preempts"
    assert result.nodes == (("n3", 1),)
    assert result.preempted == tuple(f"low-3-{i}" for i in range(8))


def racks(busy_per_rack: int) -> list[dict[str, Any]]:
    """Issue 10815: ten NVL72 racks of 18 nodes, two nodes bad, two queues of one cohort."""
    objects = queues(
        {"unified": 432, "gec": 288}, [CLIQUE, HOST], cohort="all", reclaimWithinCohort="Any"
    )
    for rack in range(10):
        for n in range(18):
            is_bad = rack < 2 and n == 0
            objects.append(node(f"r{rack}-{n}", 4, {CLIQUE: f"c{rack}"}, unschedulable=is_bad))
        for n in range(1, 1 + busy_per_rack):
            # The last ones borrow: their queue uses more than its own quota.
            queue = "unified"
            name = f"w-{rack}-{n}"
            objects.append(workload(name, queue, 4, 0))
            objects.append(pod(name, name, f"r{rack}-{n}", 4))
    return objects


GANG = {"slice_required_topology": CLIQUE, "slice_size": "16"}


def test_gang_of_a_rack_fits_where_a_rack_is_free() -> None:
    result = admission(job("gec", 4, pods=16, **GANG), racks(2))
    assert result.verdict == "placed"
    assert len({name.split("-")[0] for name, _ in result.nodes}) == 1


def test_preemption_across_a_cohort_frees_no_whole_rack() -> None:
    """kubernetes-sigs/kueue#10815: enough GPUs are free in all racks together, and no rack holds a slice."""
    result = admission(job("gec", 4, pods=16, **GANG), racks(9))
    assert result.verdict == "waits"
    assert "in slices of 16 pods per nvidia.com/gpu.clique" in result.what
    assert "by quota alone it is admitted" in result.what
    slices, moves = result.changes[:2]
    assert slices == "podset-slice-size: 8 instead of 16"
    assert moves.startswith("wait for, or move, 7 workloads: w-")
    assert len({name.split("-")[1] for name in moves.split(": ")[1].split(", ")}) == 1


def test_borrowing_workloads_of_one_rack_are_named() -> None:
    # 11 nodes of every rack: 440 GPUs, more than the queue's own 432, so they may be reclaimed.
    result = admission(job("gec", 4, pods=16, **GANG), racks(11))
    assert result.verdict == "preempts"
    assert len(result.preempted) == 9
    assert len({name.split("-")[1] for name in result.preempted}) == 1


def test_job_larger_than_its_quota_is_never_admitted() -> None:
    objects = [*queues({"team": 8}, [HOST]), *(node(f"n{n}", 8) for n in range(4))]
    result = admission(job("team", 8, pods=2), objects)
    assert result.verdict == "never"
    assert result.changes == ("raise nominalQuota of flavor gpu in team to 16",)


def test_missing_queue_and_unknown_level_are_never_admitted() -> None:
    objects = [*queues({"team": 8}, [HOST]), node("n0", 8)]
    assert admission(job("teem", 8), objects).changes[0].endswith("set the label to one of team")
    wrong = admission(job("team", 8, required_topology="rack"), objects)
    assert wrong.verdict == "never"
    assert wrong.changes == (f"use one of {HOST}",)


def test_tainted_and_unready_nodes_are_not_used() -> None:
    taint = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    objects = [*queues({"team": 8}, [HOST]), node("n0", 8, taints=taint)]
    result = admission(job("team", 8), objects)
    assert result.verdict == "never"
    assert "do not fit even on the empty nodes" in result.what
    objects[1]["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert admission(job("team", 8), objects).verdict == "placed"


def test_job_of_fewer_pods_is_the_last_change() -> None:
    objects = [*queues({"team": 64}, [HOST]), *(node(f"n{n}", 8) for n in range(3))]
    result = admission(job("team", 8, pods=5), objects)
    assert result.verdict == "never"
    assert result.changes == ("3 pods instead of 5",)
