"""Every replica that a chip can make of a model, over every number of sequences, by the closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Chip
from gpuyard.perf.inference import (
    Calibration,
    Engine,
    Precision,
    ReplicaLayout,
    ServingChip,
    Shape,
    costs_row,
    limits,
    room,
    steady_state,
    with_graphs,
)
from gpuyard.plan.inference.load import Load, Targets
from gpuyard.plan.inference.replica import Replica

__all__ = ["SEQUENCES", "ChipGrid", "TooBig", "grid_of", "replicas_of"]

Reals = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# Sequences at once in one rank: steps of about a fifth, so that the best is within a tenth of a grid point.
SEQUENCES = np.unique(np.rint(np.geomspace(1.0, 2048.0, 42))).astype(np.float64)
TAIL_WAIT = 3.0  # the 99th of 100 first tokens over the mean, to sort candidates before they are simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class TooBig:
    """A replica that the chips cannot hold: the leanest of a chip says by how much."""

    layout: ReplicaLayout
    needed_bytes: float  # on the fullest chip: weights, reserve and one request's cache
    memory_bytes: float
    precision: Precision

    @property
    def ratio(self) -> float:
        """Needed over there."""
        return self.needed_bytes / self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipGrid:
    """Candidates of one chip (rows) over SEQUENCES (columns); of one rank."""

    chip: Chip
    replicas: tuple[Replica, ...]
    too_big: tuple[TooBig, ...]
    tpot_s: Reals
    ttft_s: Reals
    output_tokens_per_s: Reals
    fits: Bools  # the cache holds so many sequences

    def keeps(self, targets: Targets, load: Load) -> Bools:
        """Where every target is kept on average, and the long answers' by estimate."""
        good = self.fits.copy()
        if targets.tpot_s is not None:
            good &= self.tpot_s <= targets.tpot_s
        if targets.ttft_s is not None:
            good &= self.ttft_s <= targets.ttft_s
        if targets.p99_s is not None:
            good &= self.long_s(load) <= targets.p99_s
        return good

    def long_s(self, load: Load) -> Reals:
        """About the time of the slowest of a hundred answers."""
        return TAIL_WAIT * self.ttft_s + self.tpot_s * max(load.long_output_tokens - 1.0, 0.0)

    @property
    def ranks(self) -> Reals:
        """Attention data parallel ranks of each candidate, as a column."""
        return np.array([[float(replica.ranks)] for replica in self.replicas]).reshape(-1, 1)

    @property
    def chips(self) -> Reals:
        """Chips of each candidate, as a column."""
        return np.array([[float(replica.layout.chips)] for replica in self.replicas]).reshape(-1, 1)

    def only(self, kept: Sequence[int]) -> ChipGrid:
        """The grid of those candidates alone."""
        rows = np.array(kept, dtype=np.int64)
        return replace(
            self,
            replicas=tuple(self.replicas[index] for index in kept),
            tpot_s=self.tpot_s[rows],
            ttft_s=self.ttft_s[rows],
            output_tokens_per_s=self.output_tokens_per_s[rows],
            fits=self.fits[rows],
        )

    def __len__(self) -> int:
        return len(self.replicas)


def replicas_of(
    chip: ServingChip,
    shape: Shape,
    load: Load,
    ways: Sequence[tuple[Engine, Precision, ReplicaLayout]],
    calibration: Calibration,
) -> tuple[list[Replica], list[TooBig]]:
    """The ways that fit the chip's memory with at least one request, and those that do not."""
    kept: list[Replica] = []
    out: list[TooBig] = []
    for engine, precision, layout in ways:
        held = room(shape, chip, precision, layout, engine, calibration)
        if held.blocks < 1 or held.sequences(load.total_tokens) < 1:
            one = held.token_bytes * load.total_tokens + held.sequence_bytes
            share = 1.0 if engine.memory == "free" else engine.memory_ratio
            out.append(
                TooBig(
                    layout=layout,
                    needed_bytes=held.weight_bytes + held.reserve_bytes + one,
                    memory_bytes=chip.memory_bytes * share,
                    precision=precision,
                )
            )
            continue
        caps = limits(engine, held, load.input_tokens, load.output_tokens, stages=layout.pp)
        row = costs_row(shape, chip, precision, layout, with_graphs(engine, caps, layout.pp), calibration)
        kept.append(
            Replica(chip=chip, engine=engine, precision=precision, layout=layout, room=held, limits=caps, row=row)
        )
    return kept, out


def grid_of(chip: Chip, replicas: Sequence[Replica], too_big: Sequence[TooBig], load: Load) -> ChipGrid:
    """The closed form over every replica and number of sequences."""
    many, steps = len(replicas), len(SEQUENCES)
    if not many:
        none = np.empty((0, steps))
        return ChipGrid(
            chip=chip, replicas=(), too_big=tuple(too_big), tpot_s=none, ttft_s=none, output_tokens_per_s=none,
            fits=none.astype(bool),
        )  # fmt: skip
    held = np.array([replica.held(load.total_tokens) for replica in replicas])
    found = steady_state(
        np.array([replica.row for replica in replicas]),
        np.repeat(np.arange(many), steps),
        np.tile(SEQUENCES, many),
        np.repeat(held, steps),
        np.full(many * steps, load.new_tokens),
        np.full(many * steps, load.output_tokens),
    )
    return ChipGrid(
        chip=chip,
        replicas=tuple(replicas),
        too_big=tuple(too_big),
        tpot_s=found.tpot_s.reshape(many, steps),
        ttft_s=found.ttft_s.reshape(many, steps),
        output_tokens_per_s=found.output_tokens_per_s.reshape(many, steps),
        fits=SEQUENCES[None, :] <= held[:, None],
    )
