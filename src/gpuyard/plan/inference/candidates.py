"""Candidate replicas of a chip over a grid of concurrent sequences, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.catalog.chips import Chip
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.closed_form import steady_state
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import KvCacheCapacity, kv_cache_capacity, limits, with_graphs
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.inference.shape import DecoderShape
from gpuyard.plan.inference.load import ServingLoad, Targets
from gpuyard.plan.inference.replica import Replica
from gpuyard.workload.requirements import MetricName

Reals = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# Concurrent sequences per rank, in steps of about 20 %: the optimum is within 10 % of a grid point.
SEQUENCES = np.unique(np.rint(np.geomspace(1.0, 2048.0, 42))).astype(np.float64)
FREE_RATIO = 0.05  # of a chip's memory that stays free: fragmentation, library buffers
TAIL_WAIT = 3.0  # p99 / mean of TTFT, to sort candidates before they are simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class TooBig:
    """A replica that does not fit in memory."""

    layout: ReplicaLayout
    needed_bytes: float  # peak per chip: weights, reserve and the KV cache of one request
    memory_bytes: float
    precision: Precision

    @property
    def ratio(self) -> float:
        return self.needed_bytes / self.memory_bytes if self.memory_bytes > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipGrid:
    """Candidates of one chip (rows) over SEQUENCES (columns), per rank."""

    chip: Chip
    replicas: tuple[Replica, ...]
    too_big: tuple[TooBig, ...]
    tpot_s: Reals
    ttft_s: Reals
    output_tokens_per_s: Reals
    fits: Bools  # the KV cache holds that many sequences

    def meets(self, targets: Sequence[Targets], load: ServingLoad) -> Bools:
        """Where the targets of each replica are met on average, and p99 by estimate."""
        metrics: tuple[MetricName, ...] = ("ttft", "tpot", "e2e")
        mean_s = {
            name: np.array([[item.mean_limit_s(name)] for item in targets]).reshape(-1, 1)
            for name in metrics
        }
        p99_s = np.array([[_limit(item.p99_s)] for item in targets]).reshape(-1, 1)
        e2e_s = self.ttft_s + self.tpot_s * max(load.output_tokens - 1.0, 0.0)
        met = self.fits & (self.tpot_s <= mean_s["tpot"]) & (self.ttft_s <= mean_s["ttft"])
        return np.asarray(met & (e2e_s <= mean_s["e2e"]) & (self.long_s(load) <= p99_s))

    def long_s(self, load: ServingLoad) -> Reals:
        """Estimate of the p99 end-to-end latency."""
        return TAIL_WAIT * self.ttft_s + self.tpot_s * max(load.long_output_tokens - 1.0, 0.0)

    @property
    def ranks(self) -> Reals:
        """Attention data-parallel ranks per candidate, as a column."""
        return np.array([[float(replica.ranks)] for replica in self.replicas]).reshape(-1, 1)

    @property
    def chips(self) -> Reals:
        """Chips per candidate, as a column."""
        return np.array([[float(replica.layout.chips)] for replica in self.replicas]).reshape(-1, 1)

    def take(self, indices: Sequence[int]) -> ChipGrid:
        rows = np.array(indices, dtype=np.int64)
        return replace(
            self,
            replicas=tuple(self.replicas[index] for index in indices),
            tpot_s=self.tpot_s[rows],
            ttft_s=self.ttft_s[rows],
            output_tokens_per_s=self.output_tokens_per_s[rows],
            fits=self.fits[rows],
        )

    def __len__(self) -> int:
        return len(self.replicas)


def with_headroom(
    engine: ServingEngine, chip: ServingChip, kv_cache: KvCacheCapacity
) -> ServingEngine:
    """Return the engine with a memory share that leaves 5 % of the chip's memory free."""
    total = chip.memory_bytes
    fixed = kv_cache.weight_bytes + kv_cache.reserve_bytes
    if kv_cache.cache_bytes <= (1.0 - FREE_RATIO) * total - fixed:
        return engine
    most = 1.0 - FREE_RATIO  # of all memory
    if engine.memory == "free":  # a share of what weights and reserve leave
        most = 1.0 - FREE_RATIO * total / max(total - fixed, FREE_RATIO * total)
    elif engine.memory == "static":  # the reserve is outside the share
        most -= kv_cache.reserve_bytes / total
    share = max(0.0, math.floor(1000.0 * min(engine.memory_ratio, most)) / 1000.0)
    return replace(engine, memory_ratio=share)


def _limit(limit_s: float | None) -> float:
    return math.inf if limit_s is None else limit_s


def replicas_of(
    chip: ServingChip,
    shape: DecoderShape,
    load: ServingLoad,
    configurations: Sequence[tuple[ServingEngine, Precision, ReplicaLayout]],
    calibration: ServingCalibration,
) -> tuple[list[Replica], list[TooBig]]:
    """Split configurations into replicas that fit in memory and those that do not."""
    fitting: list[Replica] = []
    too_big: list[TooBig] = []
    for named, precision, layout in configurations:
        kv_cache = kv_cache_capacity(shape, chip, precision, layout, named, calibration)
        engine = with_headroom(named, chip, kv_cache)
        if engine is not named:
            kv_cache = kv_cache_capacity(shape, chip, precision, layout, engine, calibration)
        if kv_cache.blocks < 1 or kv_cache.sequences(load.total_tokens) < 1:
            request_bytes = kv_cache.token_bytes * load.total_tokens + kv_cache.sequence_bytes
            share = 1.0 if engine.memory == "free" else engine.memory_ratio
            too_big.append(
                TooBig(
                    layout=layout,
                    needed_bytes=kv_cache.weight_bytes + kv_cache.reserve_bytes + request_bytes,
                    memory_bytes=chip.memory_bytes * share,
                    precision=precision,
                )
            )
            continue
        caps = limits(engine, kv_cache, load.input_tokens, load.output_tokens, stages=layout.pp)
        row = costs_row(
            shape, chip, precision, layout, with_graphs(engine, caps, layout.pp), calibration
        )
        fitting.append(
            Replica(
                chip=chip,
                engine=engine,
                precision=precision,
                layout=layout,
                room=kv_cache,
                limits=caps,
                row=row,
                kind=shape.kind,
                unmeasured=shape.unmeasured,
            )
        )
    return fitting, too_big


def grid_of(
    chip: Chip, replicas: Sequence[Replica], too_big: Sequence[TooBig], load: ServingLoad
) -> ChipGrid:
    """Evaluate the closed form over every replica and number of sequences."""
    rows = len(replicas)
    columns = len(SEQUENCES)
    if not rows:
        none = np.empty((0, columns))
        return ChipGrid(
            chip=chip,
            replicas=(),
            too_big=tuple(too_big),
            tpot_s=none,
            ttft_s=none,
            output_tokens_per_s=none,
            fits=none.astype(bool),
        )
    capacity = np.array([replica.max_sequences(load.total_tokens) for replica in replicas])
    steady = steady_state(
        np.array([replica.row for replica in replicas]),
        np.repeat(np.arange(rows), columns),
        np.tile(SEQUENCES, rows),
        np.repeat(capacity, columns),
        np.full(rows * columns, load.new_tokens),
        np.full(rows * columns, load.output_tokens),
    )
    return ChipGrid(
        chip=chip,
        replicas=tuple(replicas),
        too_big=tuple(too_big),
        tpot_s=steady.tpot_s.reshape(rows, columns),
        ttft_s=steady.ttft_s.reshape(rows, columns),
        output_tokens_per_s=steady.output_tokens_per_s.reshape(rows, columns),
        fits=SEQUENCES[None, :] <= capacity[:, None],
    )
