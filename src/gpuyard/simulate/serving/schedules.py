"""Schedules of published runs that do not depend on iteration time, computed once per fit.

Offline runs and closed loops admit by steps, not by time: mean latencies and throughput are then
sums over steps of their seconds times fixed weights. Similar steps are merged, so a prediction
evaluates a few dozen step times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import Infeasible
from gpuyard.jit import jit
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.step import step_time_s
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.predict_published import (
    best_layout,
    extrapolated,
    kv_cache_ratios,
    outside_engine_s,
    run,
)

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
METRICS = ("throughput", "tpot", "ttft", "e2e")
STATE = 5  # columns: prefill tokens, pairs, sequences, cached tokens, sampled; then weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedules:
    """Merged steps of many runs; run i has the rows start[i] to start[i + 1]."""

    cases: tuple[ServingBenchmark, ...]
    layouts: tuple[ReplicaLayout, ...]
    start: Ints
    steps: Reals  # STATE columns, then four weights
    tokens: Reals  # output tokens of the whole run, over all ranks

    def rows(self, calibration: ServingCalibration, which: Ints) -> Reals:
        """Return the cost coefficients of some runs, one row per run."""
        rows = [
            costs_row(c.shape, c.chip, c.precision, layout, c.engine, calibration)
            for c, layout in ((self.cases[i], self.layouts[i]) for i in which)
        ]
        return np.array(rows)

    def predict(self, calibration: ServingCalibration, which: Ints) -> Reals:
        """Return throughput, TPOT, TTFT and end-to-end time of some runs, one row per run."""
        sums = np.zeros((len(which), 4))
        _sum_steps(self.rows(calibration, which), which, self.start, self.steps, sums)
        result = np.empty_like(sums)
        result[:, 0] = self.tokens[which] / np.maximum(sums[:, 0], 1e-12)
        result[:, 1] = sums[:, 1]
        outside_s = np.array(
            [
                outside_engine_s(self.cases[i], calibration, result[k, 1])
                for k, i in enumerate(which)
            ]
        )
        result[:, 2] = sums[:, 2] + outside_s
        result[:, 3] = sums[:, 3] + outside_s
        return result


@jit
def _sum_steps(rows: Reals, which: Ints, start: Ints, steps: Reals, sums: Reals) -> None:
    for k in range(len(which)):
        i = which[k]
        for j in range(start[i], start[i + 1]):
            s = steps[j]
            time_s = step_time_s(rows[k], s[0], s[1], s[2], s[3], s[4])
            for m in range(4):
                sums[k, m] += time_s * s[5 + m]


def schedules(cases: Sequence[ServingBenchmark], calibration: ServingCalibration) -> Schedules:
    """Return the schedules of runs whose admission does not depend on time; skip other runs."""
    chosen: list[ServingBenchmark] = []
    layouts, steps, tokens, start = [], [], [], [0]
    for case in cases:
        if case.prefill is not None or case.load.kind in ("open", "mlperf-server"):
            continue
        ratios = kv_cache_ratios(case)
        results = [run(case, calibration, ratio) for ratio in ratios]
        outcomes = [one for one in results if not isinstance(one, Infeasible)]
        if len(outcomes) < len(results):
            continue
        outcome, ranks = outcomes[0]
        repeats, run_tokens = extrapolated(case, outcome)
        entries = np.concatenate([_weighted_steps(one, repeats) for one, _ in outcomes])
        entries[:, STATE:] /= len(outcomes)
        merged = _merged(entries)
        chosen.append(case)
        layouts.append(best_layout(case)[0])
        steps.append(merged)
        start.append(start[-1] + len(merged))
        tokens.append(run_tokens * ranks)
    return Schedules(
        cases=tuple(chosen),
        layouts=tuple(layouts),
        start=np.array(start, dtype=np.int64),
        steps=np.concatenate(steps),
        tokens=np.array(tokens),
    )


def _weighted_steps(outcome: ServingOutcome, repeats: float) -> Reals:
    """Return the state of every timeline entry, and the weight of its step time in each metric.

    repeats: how often the run repeats the steps until its last request is admitted.
    """
    line = outcome.timeline
    count, length = len(outcome.arrived_s), len(line.at_s)
    arrive, first, finish = outcome.entries
    waiting, decoding, in_flight = (np.zeros(length + 2) for _ in range(3))
    np.add.at(waiting, arrive, 1.0)
    np.add.at(waiting, first + 1, -1.0)
    np.add.at(in_flight, arrive, 1.0)
    np.add.at(in_flight, finish + 1, -1.0)
    more = outcome.output_tokens > 1
    per_token = 1.0 / (outcome.output_tokens[more] - 1.0)
    np.add.at(decoding, first[more] + 1, per_token)
    np.add.at(decoding, finish[more] + 1, -per_token)
    weights = [
        np.cumsum(part)[:length] * line.steps / n
        for part, n in ((decoding, max(more.sum(), 1)), (waiting, count), (in_flight, count))
    ]
    state = (
        line.prefill_tokens,
        line.prefill_pairs,
        line.decode_seqs,
        line.kv_tokens,
        line.sampled,
    )
    times = np.where(np.arange(length) <= first.max(), repeats, 1.0)
    return np.column_stack([*state, line.steps * times, *weights])


def _merged(entries: Reals) -> Reals:
    """Merge entries of similar size at their mean state; weights add up."""
    prefill, seqs = entries[:, 0], entries[:, 2]
    per_sequence = entries[:, 3] / np.maximum(seqs, 1.0)
    key = (
        np.floor(4.0 * np.log2(1.0 + prefill)) * 1e6
        + np.floor(6.0 * np.log2(1.0 + seqs)) * 1e3
        + np.floor(3.0 * np.log2(1.0 + per_sequence))
    )
    _, place = np.unique(key, return_inverse=True)
    size = int(place.max()) + 1
    weight = entries[:, 5]
    total = np.bincount(place, weight, size)
    state = [np.bincount(place, entries[:, k] * weight, size) / total for k in range(STATE)]
    return np.column_stack(
        [*state, *(np.bincount(place, entries[:, 5 + m], size) for m in range(4))]
    )
