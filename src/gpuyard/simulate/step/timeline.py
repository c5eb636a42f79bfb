"""Timeline of one training step: exposed communication and stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.errors import InputError
from gpuyard.simulate.step.pipeline_schedule import PipelineTask, orders
from gpuyard.simulate.step.step_work import StepWork

COMPUTE, NETWORK = "compute", "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A slow stage (`ratio` times as long), or a replica that is late with its gradients."""

    stage: int
    ratio: float = 1.0
    late_s: float = 0.0  # how much later another replica of the stage is ready to reduce gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent:
    """Something that a stage does for a while."""

    stage: int
    lane: str  # compute, or network
    kind: str
    micro: int
    chunk: int
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeline:
    """All events of a step and what they add up to, for the stage that ends last."""

    events: tuple[StepEvent, ...]
    step_s: float
    passes_s: tuple[
        float, ...
    ]  # by stage: forward and backward passes, with the communication inside them
    idle_s: tuple[float, ...]  # by stage: waiting for other stages, until its last pass ends
    exposed_gradient_s: float  # after the last pass
    exposed_parameter_s: float  # before the first pass could begin or go on
    hidden_s: float  # gradients and parameters overlapped with compute, of the last stage


def simulate_step(work: StepWork, slow: Sequence[Slow] = ()) -> StepTimeline:
    """The step; stages begin together with gathered or arriving parameters."""
    for item in slow:
        if not 0 <= item.stage < work.stages or item.ratio <= 0 or item.late_s < 0:
            raise InputError.one(
                "straggler",
                f"stage {item.stage}, ratio {item.ratio}",
                "name a stage and a ratio above 0",
            )
    factor = [1.0] * work.stages
    late_s = [0.0] * work.stages
    for item in slow:
        factor[item.stage] = max(factor[item.stage], item.ratio)
        late_s[item.stage] = max(late_s[item.stage], item.late_s)
    passes, waited_s = _passes(work, factor)
    events = list(passes)
    ends: list[float] = []
    exposed: list[float] = []
    for stage in range(work.stages):
        own = [event for event in passes if event.stage == stage and event.lane == COMPUTE]
        last_s = own[-1].end_s
        synchronised_s = _gradients(work, stage, own, late_s[stage], events)
        exposed.append(max(0.0, synchronised_s - last_s))
        ends.append(_tail(work, stage, max(synchronised_s, last_s), events))
    latest = max(range(work.stages), key=lambda stage: ends[stage])
    used = tuple(
        sum(e.end_s - e.begin_s for e in passes if e.stage == stage and e.lane == COMPUTE)
        for stage in range(work.stages)
    )
    finished = [max(e.end_s for e in passes if e.stage == stage) for stage in range(work.stages)]
    total_sync = work.gradient_s + (work.parameter_s if work.overlaps else 0.0)
    return StepTimeline(
        events=tuple(events),
        step_s=max(ends),
        passes_s=used,
        idle_s=tuple(finish - busy for finish, busy in zip(finished, used, strict=True)),
        exposed_gradient_s=exposed[latest],
        exposed_parameter_s=waited_s[latest] if work.overlaps else work.parameter_s,
        hidden_s=max(0.0, total_sync - exposed[latest] - waited_s[latest]),
    )


def _passes(work: StepWork, factor: Sequence[float]) -> tuple[list[StepEvent], list[float]]:
    """Forward and backward passes of all stages, and how long each waited for its parameters."""
    todo = [list(reversed(order)) for order in orders(work.stages, work.chunks, work.micro_batches)]
    done: dict[tuple[int, PipelineTask], float] = {}
    free = [0.0] * work.stages
    waited = [0.0] * work.stages
    arrived = _parameters(work)
    events = _parameter_events(work) if work.overlaps else []
    moved = True
    while moved:
        moved = False
        for stage in range(work.stages):
            while todo[stage]:
                task = todo[stage][-1]
                ready_s = _ready(work, stage, task, done)
                if ready_s is None:
                    break
                length = (work.backward_s if task.backward else work.forward_s)[stage] * factor[
                    stage
                ]
                begin_s = max(free[stage], ready_s)
                end_s = begin_s + length
                if task.micro == 0 and not task.backward:
                    late = max(arrived[task.chunk] + length / work.buckets - end_s, 0.0)
                    waited[stage] += late
                    end_s += late
                events += _pass_events(work, stage, task, begin_s, end_s)
                done[stage, todo[stage].pop()] = free[stage] = end_s
                moved = True
    assert not any(todo), "every pass can be done"
    return events, waited


def _ready(
    work: StepWork, stage: int, task: PipelineTask, done: dict[tuple[int, PipelineTask], float]
) -> float | None:
    """When what a pass needs has come from the stage before it; None if that is not done yet."""
    place = task.chunk * work.stages + stage
    last = work.chunks * work.stages - 1
    if task.backward and place == last:
        return done.get((stage, task._replace(backward=False)))
    if not task.backward and place == 0:
        return 0.0
    there = place + 1 if task.backward else place - 1
    chunk, neighbour = divmod(there, work.stages)
    came = done.get((neighbour, task._replace(chunk=chunk)))
    return None if came is None else came + (work.send_s if neighbour != stage else 0.0)


def _pass_events(
    work: StepWork, stage: int, task: PipelineTask, begin_s: float, end_s: float
) -> list[StepEvent]:
    """The pass, and the exposed communication inside it."""
    kind = "backward" if task.backward else "forward"
    common = {"stage": stage, "micro": task.micro, "chunk": task.chunk}
    events = [StepEvent(lane=COMPUTE, kind=kind, begin_s=begin_s, end_s=end_s, **common)]
    at = end_s
    for part in reversed(work.parts):
        length = (part.backward_ratio if task.backward else part.forward_ratio) * (end_s - begin_s)
        events.append(
            StepEvent(lane="inside", kind=part.kind, begin_s=at - length, end_s=at, **common)
        )
        at -= length
    return events


def _parameters(work: StepWork) -> list[float]:
    """When the parameters of each chunk are gathered, if that overlaps with the first passes."""
    gather_s = work.parameter_s / work.chunks if work.overlaps else 0.0
    return [gather_s * (chunk + 1) for chunk in range(work.chunks)]


def _parameter_events(work: StepWork) -> list[StepEvent]:
    gather_s = work.parameter_s / work.chunks
    if not gather_s:
        return []
    return [
        StepEvent(
            stage=stage,
            lane=NETWORK,
            kind="parameters",
            micro=-1,
            chunk=chunk,
            begin_s=gather_s * chunk,
            end_s=gather_s * (chunk + 1),
        )
        for stage in range(work.stages)
        for chunk in range(work.chunks)
    ]


def _gradients(
    work: StepWork, stage: int, own: Sequence[StepEvent], late_s: float, events: list[StepEvent]
) -> float:
    """Reduce gradients in buckets behind the last backward pass of each chunk; return when."""
    if not work.gradient_s:
        return own[-1].end_s + late_s
    bucket_s = work.gradient_s / (work.chunks * work.buckets)
    final = {event.chunk: event for event in own if event.kind == "backward"}
    ready: list[tuple[float, int]] = []
    for chunk, event in final.items():
        length = event.end_s - event.begin_s
        ready += [
            (event.begin_s + length * (bucket + 1) / work.buckets, chunk)
            for bucket in range(work.buckets)
        ]
    at = 0.0
    for ready_s, chunk in sorted(ready):
        begin_s = max(at, (ready_s if work.overlaps else own[-1].end_s) + late_s)
        at = begin_s + bucket_s
        events.append(
            StepEvent(
                stage=stage,
                lane=NETWORK,
                kind="gradients",
                micro=-1,
                chunk=chunk,
                begin_s=begin_s,
                end_s=at,
            )
        )
    return at


def _tail(work: StepWork, stage: int, at_s: float, events: list[StepEvent]) -> float:
    """The optimizer, parameters that are gathered after it, and the rest; gives the end."""
    parts = [("optimizer", COMPUTE, work.optimizer_s)]
    if not work.overlaps:
        parts.append(("parameters", NETWORK, work.parameter_s))
    parts.append(("other", COMPUTE, work.other_s))
    for kind, lane, length in parts:
        if length:
            events.append(
                StepEvent(
                    stage=stage,
                    lane=lane,
                    kind=kind,
                    micro=-1,
                    chunk=-1,
                    begin_s=at_s,
                    end_s=at_s + length,
                )
            )
            at_s += length
    return at_s
