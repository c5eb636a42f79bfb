"""Pipeline schedules: 1F1B, plain or interleaved (Narayanan 2021)."""

from __future__ import annotations

from typing import NamedTuple


class PipelineTask(NamedTuple):
    """A pass of one micro-batch through one chunk of a stage."""

    backward: bool
    micro: int
    chunk: int


def orders(stages: int, chunks: int, micro_batches: int) -> tuple[tuple[PipelineTask, ...], ...]:
    """The tasks of each stage in order.

    Interleaving needs micro-batches in multiples of the stages; otherwise the last group is
    smaller, as Megatron's is.
    """
    forward = _sequence(stages, chunks, micro_batches, backward=False)
    backward = _sequence(stages, chunks, micro_batches, backward=True)
    return tuple(_of_stage(stage, stages, chunks, forward, backward) for stage in range(stages))


def _sequence(stages: int, chunks: int, micro_batches: int, backward: bool) -> list[PipelineTask]:
    """Micro-batches in groups as large as the pipeline, each group through all chunks in turn."""
    tasks = []
    for first in range(0, micro_batches, stages):
        group = range(first, min(first + stages, micro_batches))
        for turn in range(chunks):
            chunk = chunks - 1 - turn if backward else turn
            tasks += [PipelineTask(backward=backward, micro=micro, chunk=chunk) for micro in group]
    return tasks


def _of_stage(
    stage: int, stages: int, chunks: int, forward: list[PipelineTask], backward: list[PipelineTask]
) -> tuple[PipelineTask, ...]:
    """Order of 1F1B: warm-up forward passes, then one forward and one backward, then the rest."""
    ahead = stages - stage - 1
    if chunks > 1:
        ahead = 2 * ahead + (chunks - 1) * stages
    ahead = min(ahead, len(forward))
    tasks = forward[:ahead]
    for number, task in enumerate(forward[ahead:]):
        tasks += [task, backward[number]]
    return (*tasks, *backward[len(forward) - ahead :])
