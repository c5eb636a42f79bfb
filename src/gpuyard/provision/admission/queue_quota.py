"""Quota of a Kueue ClusterQueue: what a job may still use, borrow, or take by preemption."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gpuyard.provision.admission.cluster_state import (
    ClusterState,
    RunningWorkload,
    Tree,
    part,
    rows,
)
from gpuyard.provision.resource_quantity import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """Quota of one resource in one flavor of a ClusterQueue."""

    queue: str
    flavor: str
    resource: str
    nominal: float
    borrowing_limit: float


def cohort_of(state: ClusterState, queue: str) -> str:
    """Return the cohort of a ClusterQueue; empty if it has none."""
    spec = state.named("ClusterQueue", queue)
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def flavor_quotas(state: ClusterState, queue: str) -> Iterator[FlavorQuota]:
    """Yield the quotas of a ClusterQueue, flavors in the order in which they are tried."""
    for group in rows(state.named("ClusterQueue", queue), "resourceGroups"):
        for flavor in rows(group, "flavors"):
            for row in rows(flavor, "resources"):
                limit = row.get("borrowingLimit")
                yield FlavorQuota(
                    queue=queue,
                    flavor=str(flavor.get("name")),
                    resource=str(row.get("name")),
                    nominal=quantity(row.get("nominalQuota")),
                    borrowing_limit=math.inf if limit is None else quantity(limit),
                )


def used(state: ClusterState, quota: FlavorQuota, gone: Collection[str] = ()) -> float:
    """Return what the workloads of the quota's queue use; `gone` are not counted."""
    return sum(
        workload.usage.get((quota.flavor, quota.resource), 0.0)
        for workload in state.workloads
        if workload.queue == quota.queue and workload.name not in gone
    )


def available(state: ClusterState, quota: FlavorQuota, gone: Collection[str] = ()) -> float:
    """Return how much of the resource a new job may use, borrowed quota included."""
    own = quota.nominal - used(state, quota, gone)
    cohort = cohort_of(state, quota.queue)
    if not cohort:
        return own
    members = [
        name for name in state.objects.get("ClusterQueue", {}) if cohort_of(state, name) == cohort
    ]
    free = sum(
        other.nominal - used(state, other, gone)
        for name in members
        for other in flavor_quotas(state, name)
        if (other.flavor, other.resource) == (quota.flavor, quota.resource)
    )
    return min(free, own + quota.borrowing_limit)


def preemptible(
    state: ClusterState, quota: FlavorQuota, priority: int
) -> tuple[RunningWorkload, ...]:
    """Return the workloads that the queue's policies let a job of this priority preempt."""
    policy = part(state.named("ClusterQueue", quota.queue), "preemption")
    cohort = cohort_of(state, quota.queue)
    return tuple(
        workload
        for workload in state.workloads
        if _may_preempt(state, quota, policy, workload, priority, cohort)
    )


def _may_preempt(
    state: ClusterState,
    quota: FlavorQuota,
    policy: Tree,
    workload: RunningWorkload,
    priority: int,
    cohort: str,
) -> bool:
    key = (quota.flavor, quota.resource)
    if key not in workload.usage:
        return False
    if workload.queue == quota.queue:
        within = str(policy.get("withinClusterQueue") or "Never")
        return within.startswith("Lower") and workload.priority < priority
    if not cohort or cohort_of(state, workload.queue) != cohort:
        return False
    other = next(
        (row for row in flavor_quotas(state, workload.queue) if (row.flavor, row.resource) == key),
        None,
    )
    is_borrowing = other is None or used(state, other) > other.nominal
    reclaim = str(policy.get("reclaimWithinCohort") or "Never")
    return is_borrowing and (
        reclaim == "Any" or (reclaim == "LowerPriority" and workload.priority < priority)
    )
