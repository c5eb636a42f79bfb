"""Shadow traffic: a second version gets copies of answered requests; its outputs are compared.

The copy is sent after the answer and computed in a thread, so it never changes an answer. Copies
beyond MAX_PENDING are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.shadow_counts import ShadowCounts
from gpuyard.serving.spec import ShadowSpec
from gpuyard.serving.version import LABEL, Answer, Version

log = logging.getLogger("gpuyard.serving")
MAX_PENDING = 256
RELATIVE, ABSOLUTE = 1e-4, 1e-6  # smaller differences of numbers are rounding


class Shadow:
    """A loaded shadow of one model in one worker."""

    __slots__ = ("_credit", "_tasks", "counts", "spec", "version")

    def __init__(self, version: Version, spec: ShadowSpec) -> None:
        self.version = version
        self.spec = spec
        name, number = version.label
        self.counts = ShadowCounts(model=name, version=number, active="")
        self._credit = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def mirror(
        self, infer: Callable[[Version], Awaitable[Answer]], active: Version, answer: Answer
    ) -> None:
        """Send a copy of an answered request, if it is one of the share."""
        self._credit += self.spec.share_ratio
        if self._credit < 1:
            return
        self._credit -= 1
        if len(self._tasks) >= MAX_PENDING:
            self.counts = replace(self.counts, dropped=self.counts.dropped + 1)
            return
        task = asyncio.create_task(self._compare(infer, active, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _compare(
        self, infer: Callable[[Version], Awaitable[Answer]], active: Version, answer: Answer
    ) -> None:
        start, failures = perf_counter(), 0
        row = ShadowCounts(model="", version="", active="", requests=1)
        try:
            own = await infer(self.version)
            row = _comparison(row, active, answer, self.version, own)
        except (RequestError, ModelError) as error:
            failures = 1
            if (self.counts.failures + 1).bit_count() == 1:  # 1, 2, 4, …: the log is not flooded
                log.error("shadow %s/%s failed: %s", *self.version.label, error)
        except Exception:
            failures = 1
            log.exception("shadow %s/%s failed", *self.version.label)
        row = replace(row, failures=failures, seconds_sum=perf_counter() - start)
        self.counts = replace(self.counts.plus(row), active=active.resolved.version)


def _comparison(
    row: ShadowCounts, active: Version, answer: Answer, shadow: Version, own: Answer
) -> ShadowCounts:
    given = {output.name: values for output, values in active.output_values(answer.part)}
    rows, values, total, largest = answer.part.size, 0, 0.0, 0.0
    different = np.zeros(rows, bool)
    by_label = LABEL in given
    for output, mine in shadow.output_values(own.part):
        theirs = given.get(output.name, ())
        if output.datatype.startswith("FP"):
            one, other = np.asarray(theirs, float), np.asarray(mine, float)
            gap = np.abs(one - other)
            values, total = values + len(gap), total + float(gap.sum())
            largest = max(largest, float(gap.max(initial=0.0)))
            unequal = gap > ABSOLUTE + RELATIVE * np.abs(one)
        else:
            unequal = _unequal(theirs, mine)
        if not by_label or output.name == LABEL:
            different |= unequal.reshape(rows, -1).any(axis=1)
    return replace(
        row,
        rows=rows,
        rows_different=int(different.sum()),
        values=values,
        difference_sum=total,
        difference_max=largest,
    )


def _unequal(
    one: Sequence[object] | np.ndarray, other: Sequence[object] | np.ndarray
) -> np.ndarray:
    return np.array([a != b for a, b in zip(one, other, strict=True)], bool)
