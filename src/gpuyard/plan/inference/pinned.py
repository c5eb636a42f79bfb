"""Serving candidates that keep what the file pins: engine, formats, layout, replicas, machines."""

from __future__ import annotations

import typing
from collections.abc import Iterable

from gpuyard.errors import Infeasible, InputError, choices_text
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import KvFormat, Precision, WeightFormat
from gpuyard.plan.engine_commands import read_servers
from gpuyard.plan.inference.load import Targets
from gpuyard.plan.inference.refine import CachedServingModel, SimulatedSizing, missed_targets
from gpuyard.plan.inference.sizing import ReplicaSizing, machines_for, replicas_on
from gpuyard.workload.sections import Pinned
from gpuyard.workload.workload import Workload

NOTHING = Pinned()


def check_pinned(workload: Workload) -> None:
    """Raise InputError for an engine or a format that does not exist."""
    pinned = workload.pinned or NOTHING
    known = (
        ("engine", pinned.engine, tuple(server.name for server in read_servers())),
        ("weights", pinned.weights, typing.get_args(WeightFormat)),
        ("kv", pinned.kv, typing.get_args(KvFormat)),
    )
    for key, value, names in known:
        if value is not None and value not in names:
            raise InputError.one(
                f"pinned.{key}", f'no "{value}" is known', f"use {choices_text(names)}"
            )


def keeps_engine(workload: Workload, name: str) -> bool:
    """Return True if the file pins no engine, or this one."""
    return (workload.pinned or NOTHING).engine in (None, name)


def keeps_layout(workload: Workload, layout: ReplicaLayout) -> bool:
    """Return True if a layout has every size that the file pins."""
    pinned = workload.pinned or NOTHING
    sizes = (
        (pinned.tp, layout.tp),
        (pinned.pp, layout.pp),
        (pinned.ep, layout.ep),
        (pinned.dp, layout.attention_dp),
    )
    return all(wanted in (None, size) for wanted, size in sizes)


def keep_formats(workload: Workload, dtypes: Iterable[Precision]) -> tuple[Precision, ...]:
    """Return the dtypes that have the formats that the file pins; a format alone is added."""
    pinned = workload.pinned or NOTHING
    allowed = tuple(
        item
        for item in dtypes
        if pinned.weights in (None, item.weights) and pinned.kv in (None, item.kv)
    )
    if allowed or pinned.weights is None:
        return allowed
    weights = typing.cast(WeightFormat, pinned.weights)
    return (Precision(weights=weights, kv=typing.cast(KvFormat, pinned.kv or "bf16")),)


def exact_machines(workload: Workload, sizing: ReplicaSizing) -> int | None:
    """Return the number of machines that the file states, or None."""
    count = workload.where.exact_count(sizing.machine)
    replicas = (workload.pinned or NOTHING).replicas
    if count is None and replicas is not None:
        return machines_for(sizing.replica, sizing.machine, replicas)
    return count


def size_exactly(
    workload: Workload,
    sizing: ReplicaSizing,
    model: CachedServingModel,
    targets: Targets,
    machine_count: int,
) -> SimulatedSizing | Infeasible:
    """Return the latencies of a stated number of machines and replicas."""
    room = replicas_on(sizing.replica, sizing.machine, machine_count)
    replicas = (workload.pinned or NOTHING).replicas or room
    if not 1 <= replicas <= room:
        return Infeasible(
            binding="pinned.replicas",
            what=f"{machine_count} × {sizing.machine.name} hold {room} replicas, not {replicas}",
            fix="pin a number of replicas that the machines hold",
        )
    latencies = model.serve(sizing.replica, replicas)
    if isinstance(latencies, Infeasible):
        return latencies
    return SimulatedSizing(
        machine_count=machine_count,
        replicas=replicas,
        latencies=latencies,
        missed=missed_targets(latencies, targets),
    )
