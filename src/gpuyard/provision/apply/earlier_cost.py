"""Upper bound of what earlier attempts of a deployment have cost, from its journal.

A machine is billed at most from the intent to create it until the journal records that it is gone,
and at most for the TTL that the provider enforces. While any machine of an earlier attempt may
have run, the bound counts all machines of the deployment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuyard.provision.apply.calls import ApiCall, CallStep
from gpuyard.provision.apply.journal import JournalEntry
from gpuyard.provision.cost_bound import CostBound

# What the cost bound leaves out: networks, storage and descriptions of machines. A step that is
# not in this list counts as machines.
WITHOUT_MACHINES = (
    "compute.addresses",
    "compute.disks",
    "compute.firewalls",
    "compute.forwardingRules",
    "compute.healthChecks",
    "compute.instanceTemplates",
    "compute.networks",
    "compute.regionBackendServices",
    "compute.resourcePolicies",
    "compute.routers",
    "compute.subnetworks",
    "file.projects.locations.instances",
    "storage.buckets",
    "aiplatform.projects.locations.models",
)
GONE = ("lost", "removed")


def earlier_cost_usd(
    entries: Iterable[JournalEntry], steps: Iterable[CallStep], bound: CostBound
) -> float:
    """Return the most that attempts since the last destroy have cost, without what still exists.

    What still exists is in the cost bound: its TTL counts from its creation.
    """
    machine_steps = {step.step for step in steps if _has_machines(step)}
    spans = sorted(_spans(entries, machine_steps, bound.ttl_s))
    total_s, end_s = 0.0, 0.0
    for start, end in spans:  # their union, because the bound is of all machines
        total_s += max(0.0, end - max(start, end_s))
        end_s = max(end_s, end)
    return total_s / bound.ttl_s * (bound.max_usd or 0.0)


def _has_machines(step: CallStep) -> bool:
    return isinstance(step, ApiCall) and step.collection not in WITHOUT_MACHINES


def _spans(
    entries: Iterable[JournalEntry], steps: set[str], ttl_s: float
) -> Iterator[tuple[float, float]]:
    since_s: dict[str, float] = {}
    finished: list[tuple[float, float]] = []
    for entry in entries:
        if entry.event == "begin" and entry.note == "destroy":
            since_s.clear()
            finished.clear()
        elif entry.step in steps and entry.event == "intent":
            # An earlier intent without an end failed: apply looked, and nothing existed.
            since_s[entry.step] = entry.at_s
        elif entry.step in since_s and entry.event in GONE:
            start = since_s.pop(entry.step)
            finished.append((start, min(entry.at_s, start + ttl_s)))
    yield from finished
