"""Placement of the ranks of a parallelism layout on servers and rails.

Ranks are counted as Megatron counts them: the first axis of the order changes fastest. Experts are
spread over the ranks of the data and context axes (and of the tensor axis, less the chips that
share an expert).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuyard.errors import InputError, Problem
from gpuyard.simulate.collectives.schedule import Ints

Axis = Literal["tp", "cp", "dp", "pp", "ep", "expert-dp"]
AXES: tuple[str, ...] = ("tp", "cp", "ep", "dp", "pp")
ORDER = "tp-cp-ep-dp-pp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Degrees of each axis, the order in which ranks count through them, chips per server."""

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    etp: int = 1
    order: tuple[str, ...] = AXES
    rails: int = 8

    @property
    def rank_count(self) -> int:
        return self.tp * self.cp * self.dp * self.pp

    def server(self, ranks: Ints) -> Ints:
        return np.asarray(ranks) // self.rails

    def rail(self, ranks: Ints) -> Ints:
        """The rail of each rank: its place in its server."""
        return np.asarray(ranks) % self.rails

    def groups(self, axis: Axis) -> Ints:
        """The groups of an axis, one a row, ranks in order of their place on it."""
        if axis in ("ep", "expert-dp"):
            spread = self.rank_count // (self.etp * self.ep * self.pp)
            degrees = {"tp": self.etp, "cp": 1, "ep": self.ep, "dp": spread, "pp": self.pp}
            return _groups(degrees, self.order, "ep" if axis == "ep" else "dp")
        degrees = {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}
        return _groups(degrees, self.order, axis)


def _groups(degrees: dict[str, int], order: tuple[str, ...], *axes: str) -> Ints:
    """Ranks with all other coordinates alike, one row for each combination of those."""
    shape = [
        degrees[name] for name in reversed(order)
    ]  # the first axis of the order changes fastest
    numbers = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    places = [len(order) - 1 - order.index(name) for name in axes]
    moved = np.moveaxis(numbers, sorted(places), range(-len(places), 0))
    return moved.reshape(-1, math.prod(degrees[name] for name in axes))


def placement(
    *,
    tp: int = 1,
    cp: int = 1,
    ep: int = 1,
    dp: int = 1,
    pp: int = 1,
    etp: int = 1,
    order: str = ORDER,
    rails: int = 8,
) -> Placement:
    """The placement of these degrees; InputError with everything that does not fit."""
    problems = []
    names = tuple(order.split("-"))
    if sorted(names) != sorted(AXES):
        fix = f'name each axis once, as in "{ORDER}"'
        problems.append(
            Problem(where="order", what=f'"{order}" is no order of {", ".join(AXES)}', fix=fix)
        )
    for name, degree in (
        ("tp", tp),
        ("cp", cp),
        ("ep", ep),
        ("dp", dp),
        ("pp", pp),
        ("etp", etp),
        ("rails", rails),
    ):
        if degree < 1:
            problems.append(
                Problem(where=name, what=f"{degree} is less than 1", fix="use 1 or more")
            )
    if not problems and tp * cp * dp % (ep * etp):
        what = f"{ep} x {etp} does not divide the {tp * cp * dp} ranks of a pipeline stage"
        problems.append(Problem(where="ep", what=what, fix="use a divisor of tp x cp x dp"))
    if problems:
        raise InputError(problems)
    return Placement(tp=tp, cp=cp, ep=ep, dp=dp, pp=pp, etp=etp, order=names, rails=rails)
