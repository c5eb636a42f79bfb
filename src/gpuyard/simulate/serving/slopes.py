"""Published runs as functions of the logarithms of constants: what each run's figures are, and their slopes.

Runs that differ only in their load share a row of coefficients: a few hundred rows stand for thousands of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.perf.inference import COLUMNS, Calibration, costs_row, step_time_s
from gpuyard.perf.inference.costs import largest_graph
from gpuyard.perf.inference.slope import step_slopes
from gpuyard.perf.inference.step import PADS
from gpuyard.simulate.serving.schedules import Schedules

__all__ = ["FIGURES", "Runs"]

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FIGURES = 3  # that are fitted: throughput, time a token, time to first token
NUDGE = 1e-4  # of a constant's logarithm, for slopes of coefficients
TINY = 1e-12


class _Read(Mapping[str, float]):
    """Constants that remember which of them were looked up."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values_of, self.seen = values, dict[str, None]()

    def __getitem__(self, name: str) -> float:
        self.seen[name] = None
        return self.values_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


class Runs:
    """The runs of schedules; a point is the logarithm of every constant, in the order of `names`."""

    def __init__(self, plans: Schedules, shipped: Calibration) -> None:
        self.plans, self.names = plans, tuple(shipped.values)
        place = {name: k for k, name in enumerate(self.names)}
        kinds: dict[tuple[object, ...], int] = {}
        self.kind = np.zeros(len(plans.cases), dtype=np.int64)
        self.parts = []
        for i, (case, layout) in enumerate(zip(plans.cases, plans.layouts, strict=True)):
            key = (case.shape, case.chip, case.precision, layout, case.engine.name, case.engine.slot_tokens,
                   case.engine.beams)  # fmt: skip
            if key not in kinds:
                kinds[key] = len(kinds)
                self.parts.append((case.shape, case.chip, case.precision, layout, case.engine))
            self.kind[i] = kinds[key]
        self.graphs = np.array([largest_graph(case.engine) for case in plans.cases])  # all that differs within a kind
        self.used: list[Ints] = []
        for part in self.parts:
            read = _Read(shipped.values)
            costs_row(*part, Calibration(values=read))
            self.used.append(np.array([place[name] for name in read.seen], dtype=np.int64))
        loads = [case.load for case in plans.cases]
        self.prompts = np.array([load.prompt_tokens for load in loads])
        self.waits = np.array([load.wait_steps for load in loads])
        self.polls = np.array([float(load.polls) for load in loads])
        self.entry = np.array(
            [[place[f"{case.engine.name}.{what}"] for what in ("request_us", "request_token_us", "poll_steps")]
             for case in plans.cases]
        )  # fmt: skip

    def calibration(self, point: Reals) -> Calibration:
        """The constants at a point."""
        return Calibration(values=dict(zip(self.names, np.exp(point).tolist(), strict=True)))

    def touched(self, which: Ints) -> npt.NDArray[np.bool_]:
        """Which constants some of these runs depend on."""
        found = np.zeros(len(self.names), dtype=bool)
        for kind in np.unique(self.kind[which]):
            found[self.used[kind]] = True
        found[np.unique(self.entry[which])] = True
        return found

    def rows(self, point: Reals) -> Reals:
        """The coefficients of every kind of replica."""
        now = self.calibration(point)
        return np.array([costs_row(*part, now) for part in self.parts])

    def row_slopes(self, point: Reals, rows: Reals) -> list[Reals]:
        """Slopes of the logarithms of each kind's coefficients by those of the constants that it uses.

        Most coefficients are products of powers of constants, so these hardly change from point to point.
        """
        values, found = dict(self.calibration(point).values), []
        for part, used, row in zip(self.parts, self.used, rows, strict=True):
            slopes = np.empty((len(used), len(COLUMNS)))
            for k, place in enumerate(used):
                name = self.names[place]
                before = values[name]
                values[name] = before * float(np.exp(NUDGE))
                slopes[k] = (
                    (costs_row(*part, Calibration(values=values)) - row) / NUDGE / np.where(row == 0.0, 1.0, row)
                )
                values[name] = before
            found.append(slopes)
        return found

    def predict(self, point: Reals, which: Ints) -> Reals:
        """The fitted figures of some runs, one row each."""
        sums = np.zeros((len(which), FIGURES))
        _sum(self._own(self.rows(point), which), which, self.plans.start, self.plans.steps, sums)
        return self._figures(point, which, sums)

    def _own(self, rows: Reals, which: Ints) -> Reals:
        """The coefficients of some runs, from those of their kinds."""
        own = rows[self.kind[which]]
        own[:, PADS] = self.graphs[which]
        return own

    def _figures(self, point: Reals, which: Ints, sums: Reals) -> Reals:
        """Figures from the sums over steps."""
        fixed, token, polls = np.exp(point)[self.entry[which]].T
        entry = (fixed + token * self.prompts[which]) * 1e-6 + self._looks(polls, which) * sums[:, 1]
        rate = self.plans.tokens[which] / np.maximum(sums[:, 0], TINY)
        return np.column_stack([rate, sums[:, 1], sums[:, 2] + entry])

    def _looks(self, polls: Reals, which: Ints) -> Reals:
        """Steps that a request waits until the engine looks."""
        return np.asarray(self.waits[which] + self.polls[which] * polls)

    def slopes(self, point: Reals, which: Ints, by_row: list[Reals], rows: Reals) -> tuple[Reals, Reals]:
        """The figures of some runs, and the slopes of their logarithms by every constant's."""
        count = len(which)
        sums, weights = np.zeros((count, FIGURES)), np.zeros((count, FIGURES, len(COLUMNS)))
        _sum_slopes(self._own(rows, which), which, self.plans.start, self.plans.steps, sums, weights)
        figures = self._figures(point, which, sums)
        result = np.zeros((count, FIGURES, len(self.names)))
        kind = self.kind[which]
        for each in np.unique(kind):
            some = np.flatnonzero(kind == each)
            found = np.einsum("kmc,uc->kum", weights[some] * rows[each], by_row[each], optimize=True)
            result[some[:, None], :, self.used[each][None, :]] = found
        entry, all_of_it = self.entry[which], np.arange(count)
        fixed, token, polls = np.exp(point)[entry].T
        result[:, 2] += self._looks(polls, which)[:, None] * result[:, 1]
        result[all_of_it, 2, entry[:, 0]] += fixed * 1e-6
        result[all_of_it, 2, entry[:, 1]] += token * self.prompts[which] * 1e-6
        result[all_of_it, 2, entry[:, 2]] += self.polls[which] * polls * sums[:, 1]
        result[:, 0] /= -np.maximum(sums[:, :1], TINY)
        result[:, 1:] /= np.maximum(figures[:, 1:, None], TINY)
        return figures, result


@compiled
def _sum(rows: Reals, which: Ints, start: Ints, steps: Reals, sums: Reals) -> None:
    """Seconds of the gathered steps, by weight."""
    for k in range(len(which)):
        for j in range(start[which[k]], start[which[k] + 1]):
            s = steps[j]
            time_s = step_time_s(rows[k], s[0], s[1], s[2], s[3], s[4])
            for m in range(sums.shape[1]):
                sums[k, m] += time_s * s[5 + m]


@compiled
def _sum_slopes(
    rows: Reals, which: Ints, start: Ints, steps: Reals, sums: Reals, weights: npt.NDArray[np.float64]
) -> None:
    """The same, with slopes by coefficient."""
    slope = np.zeros(rows.shape[1])
    for k in range(len(which)):
        for j in range(start[which[k]], start[which[k] + 1]):
            s = steps[j]
            time_s = step_slopes(rows[k], s[0], s[1], s[2], s[3], s[4], slope)
            for m in range(sums.shape[1]):
                sums[k, m] += time_s * s[5 + m]
                for c in range(len(slope)):
                    weights[k, m, c] += s[5 + m] * slope[c]
