"""Gradients of serving predictions with respect to the logarithms of constants.

Idea: chain rule in two steps, d metric / d coefficient (analytic, `step_slopes`) times
d coefficient / d constant (finite differences). Runs that differ only in their load share a row of
coefficients: a few hundred rows for thousands of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.columns import COLUMNS, PADS
from gpuyard.perf.inference.roofline_terms import costs_row, largest_graph
from gpuyard.perf.inference.step import step_time_s
from gpuyard.perf.inference.step_gradient import step_slopes
from gpuyard.simulate.serving.schedules import Schedules

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FIGURES = 3  # fitted metrics: throughput, TPOT, TTFT
STEP = 1e-4  # of log(constant), for finite differences
TINY = 1e-12


class _RecordedReads(Mapping[str, float]):
    """Constants that record which of them were read."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values_of, self.seen = values, dict[str, None]()

    def __getitem__(self, name: str) -> float:
        self.seen[name] = None
        return self.values_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


class FitRuns:
    """Scheduled runs; a point is the logarithm of every constant, in the order of `names`."""

    def __init__(self, plans: Schedules, shipped: ServingCalibration) -> None:
        self.plans, self.names = plans, tuple(shipped.values)
        place = {name: k for k, name in enumerate(self.names)}
        kinds: dict[tuple[object, ...], int] = {}
        self.kind = np.zeros(len(plans.cases), dtype=np.int64)
        self.replicas = []
        for i, (case, layout) in enumerate(zip(plans.cases, plans.layouts, strict=True)):
            key = (
                case.shape,
                case.chip,
                case.precision,
                layout,
                case.engine.name,
                case.engine.slot_tokens,
                case.engine.beams,
            )
            if key not in kinds:
                kinds[key] = len(kinds)
                self.replicas.append((case.shape, case.chip, case.precision, layout, case.engine))
            self.kind[i] = kinds[key]
        # The only coefficient that differs between runs of one kind.
        self.graphs = np.array([largest_graph(case.engine) for case in plans.cases])
        self.used: list[Ints] = []
        for replica in self.replicas:
            read = _RecordedReads(shipped.values)
            costs_row(*replica, ServingCalibration(values=read))
            self.used.append(np.array([place[name] for name in read.seen], dtype=np.int64))
        loads = [case.load for case in plans.cases]
        self.prompts = np.array([load.prompt_tokens for load in loads])
        self.waits = np.array([load.wait_steps for load in loads])
        self.polls = np.array([float(load.polls) for load in loads])
        self.entry = np.array(
            [
                [
                    place[f"{case.engine.name}.{what}"]
                    for what in ("request_us", "request_token_us", "poll_steps")
                ]
                for case in plans.cases
            ]
        )

    def calibration(self, point: Reals) -> ServingCalibration:
        return ServingCalibration(values=dict(zip(self.names, np.exp(point).tolist(), strict=True)))

    def touched(self, which: Ints) -> npt.NDArray[np.bool_]:
        """Return a mask of the constants that these runs depend on."""
        mask = np.zeros(len(self.names), dtype=bool)
        for kind in np.unique(self.kind[which]):
            mask[self.used[kind]] = True
        mask[np.unique(self.entry[which])] = True
        return mask

    def rows(self, point: Reals) -> Reals:
        """Return the coefficients of every kind of replica."""
        now = self.calibration(point)
        return np.array([costs_row(*replica, now) for replica in self.replicas])

    def row_slopes(self, point: Reals, rows: Reals) -> list[Reals]:
        """Return d log(coefficient) / d log(constant) of each kind, for the constants it uses.

        Most coefficients are products of powers of constants: the slopes vary little.
        """
        values, by_kind = dict(self.calibration(point).values), []
        for replica, used, row in zip(self.replicas, self.used, rows, strict=True):
            slopes = np.empty((len(used), len(COLUMNS)))
            for k, place in enumerate(used):
                name = self.names[place]
                before = values[name]
                values[name] = before * float(np.exp(STEP))
                slopes[k] = (
                    (costs_row(*replica, ServingCalibration(values=values)) - row)
                    / STEP
                    / np.where(row == 0.0, 1.0, row)
                )
                values[name] = before
            by_kind.append(slopes)
        return by_kind

    def predict(self, point: Reals, which: Ints) -> Reals:
        """Return the fitted metrics of some runs, one row per run."""
        sums = np.zeros((len(which), FIGURES))
        _sum(self._own(self.rows(point), which), which, self.plans.start, self.plans.steps, sums)
        return self._figures(point, which, sums)

    def _own(self, rows: Reals, which: Ints) -> Reals:
        """Return the coefficients of some runs, from those of their kinds."""
        own = rows[self.kind[which]]
        own[:, PADS] = self.graphs[which]
        return own

    def _figures(self, point: Reals, which: Ints, sums: Reals) -> Reals:
        fixed, token, polls = np.exp(point)[self.entry[which]].T
        entry = (
            (fixed + token * self.prompts[which]) * 1e-6  # network, front end, tokenizer
            + self._wait_steps(polls, which) * sums[:, 1]  # until the engine polls its queue
        )
        rate = self.plans.tokens[which] / np.maximum(sums[:, 0], TINY)
        return np.column_stack([rate, sums[:, 1], sums[:, 2] + entry])

    def _wait_steps(self, polls: Reals, which: Ints) -> Reals:
        """Return the steps until the engine polls its queue."""
        return np.asarray(self.waits[which] + self.polls[which] * polls)

    def slopes(
        self, point: Reals, which: Ints, by_row: list[Reals], rows: Reals
    ) -> tuple[Reals, Reals]:
        """Return metrics of some runs and d log(metric) / d log(constant)."""
        count = len(which)
        sums, weights = np.zeros((count, FIGURES)), np.zeros((count, FIGURES, len(COLUMNS)))
        _sum_slopes(
            self._own(rows, which), which, self.plans.start, self.plans.steps, sums, weights
        )
        figures = self._figures(point, which, sums)
        result = np.zeros((count, FIGURES, len(self.names)))
        kind = self.kind[which]
        for number in np.unique(kind):
            some = np.flatnonzero(kind == number)
            slopes = np.einsum(
                "kmc,uc->kum", weights[some] * rows[number], by_row[number], optimize=True
            )
            result[some[:, None], :, self.used[number][None, :]] = slopes
        entry, every = self.entry[which], np.arange(count)
        fixed, token, polls = np.exp(point)[entry].T
        result[:, 2] += self._wait_steps(polls, which)[:, None] * result[:, 1]
        result[every, 2, entry[:, 0]] += fixed * 1e-6
        result[every, 2, entry[:, 1]] += token * self.prompts[which] * 1e-6
        result[every, 2, entry[:, 2]] += self.polls[which] * polls * sums[:, 1]
        result[:, 0] /= -np.maximum(sums[:, :1], TINY)
        result[:, 1:] /= np.maximum(figures[:, 1:, None], TINY)
        return figures, result


@jit
def _sum(rows: Reals, which: Ints, start: Ints, steps: Reals, sums: Reals) -> None:
    for k in range(len(which)):
        for j in range(start[which[k]], start[which[k] + 1]):
            s = steps[j]
            time_s = step_time_s(rows[k], s[0], s[1], s[2], s[3], s[4])
            for m in range(sums.shape[1]):
                sums[k, m] += time_s * s[5 + m]


@jit
def _sum_slopes(
    rows: Reals,
    which: Ints,
    start: Ints,
    steps: Reals,
    sums: Reals,
    weights: npt.NDArray[np.float64],
) -> None:
    slope = np.zeros(rows.shape[1])
    for k in range(len(which)):
        for j in range(start[which[k]], start[which[k] + 1]):
            s = steps[j]
            time_s = step_slopes(rows[k], s[0], s[1], s[2], s[3], s[4], slope)
            for m in range(sums.shape[1]):
                sums[k, m] += time_s * s[5 + m]
                for c in range(len(slope)):
                    weights[k, m, c] += s[5 + m] * slope[c]
