"""The order in which a pipeline stage works: one forward, one backward, plain or interleaved (Narayanan 2021)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Task", "orders"]


class Task(NamedTuple):
    """A pass of one micro-batch through one chunk of a stage."""

    backward: bool
    micro: int
    chunk: int


def orders(stages: int, chunks: int, micro_batches: int) -> tuple[tuple[Task, ...], ...]:
    """The tasks of each stage in order.

    Interleaving needs micro-batches in multiples of the stages; otherwise the last group is smaller, as Megatron's is.
    """
    forward = _sequence(stages, chunks, micro_batches, backward=False)
    backward = _sequence(stages, chunks, micro_batches, backward=True)
    return tuple(_of_stage(stage, stages, chunks, forward, backward) for stage in range(stages))


def _sequence(stages: int, chunks: int, micro_batches: int, backward: bool) -> list[Task]:
    """Micro-batches in groups as large as the pipeline, each group through all chunks in turn."""
    tasks = []
    for first in range(0, micro_batches, stages):
        group = range(first, min(first + stages, micro_batches))
        for turn in range(chunks):
            chunk = chunks - 1 - turn if backward else turn
            tasks += [Task(backward=backward, micro=micro, chunk=chunk) for micro in group]
    return tasks


def _of_stage(stage: int, stages: int, chunks: int, forward: list[Task], backward: list[Task]) -> tuple[Task, ...]:
    """Forward passes until the first gradient can come back, then one of each, then what is left."""
    ahead = stages - stage - 1
    if chunks > 1:
        ahead = 2 * ahead + (chunks - 1) * stages
    ahead = min(ahead, len(forward))
    tasks = forward[:ahead]
    for number, task in enumerate(forward[ahead:]):
        tasks += [task, backward[number]]
    return (*tasks, *backward[len(forward) - ahead :])
