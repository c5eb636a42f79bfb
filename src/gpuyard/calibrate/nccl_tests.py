"""Output of nccl-tests as measured collectives, and the constants updated by them.

Idea: the shipped constants and their standard errors are the prior; a measured table updates the
constants that it determines and leaves the others.
Source of the format: NVIDIA/nccl-tests src/common.cu: one `Rank` line per GPU with its host and
device, then one line per size with time and bandwidth, out-of-place and in-place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpuyard.calibrate.gauss_newton import LOOSE_TOLERANCE, ConstantScale, solve
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.perf.error_bars import ErrorBar
from gpuyard.perf.layout import Array
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, NcclConstants, read_constants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import predicted_s

RANK = re.compile(r"^#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+)$", re.MULTILINE)
# size, count, type, reduction (with root), then time in µs, algorithm and bus bandwidth in GB/s
LINE = re.compile(
    r"^\s*(\d+)\s+\d+\s+\w+\s+(?:[a-z]+\s+)?(?:-1\s+)?(\d+\.?\d*)\s+(\d+\.?\d*)\s+(\d+\.?\d*)\s+\S+",
    re.MULTILINE,
)
TEST = re.compile(r"(all_reduce|all_gather|reduce_scatter|alltoall)(?:_perf)?\b")
NETWORKS = (("NET/Socket", "TCP"), ("NET/IB", "InfiniBand"), ("Libfabric|NET/OFI", "EFA"))
REPEAT_ERROR = 0.03  # log error of a repeated measurement
MIN_SPREAD = 0.02  # of a constant's prior, on the log scale
MIN_ERROR = 0.05  # lower bound of the interval's log error, however well the points agree


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveUpdate:
    """Constants updated by measurements, and the interval of further predictions."""

    constants: NcclConstants
    moved: Annotated[dict[str, tuple[float, float]], Doc("before and after, where over 1 %")]
    before: Annotated[float, Doc("mean of |predicted / measured - 1|, shipped constants")]
    after: float
    bar: ErrorBar
    points: int


def is_nccl_tests(text: str) -> bool:
    """Return whether a text is the output of nccl-tests."""
    return "busbw" in text and bool(RANK.search(text)) and bool(LINE.search(text))


def read_nccl_tests(text: str, where: str, network: str = "") -> tuple[MeasuredCollective, ...]:
    """Return the out-of-place measurements in the output of nccl-tests.

    network: as in published tables, such as "InfiniBand 8x400 Gb/s"; the output states no speed.
    """
    ranks = RANK.findall(text)
    test = TEST.search(text)
    if test is None:
        raise InputError.one(
            where,
            "the output names no test",
            "add the command, such as all_reduce_perf -b 8 -e 8G, as its first line",
        )
    hosts = {host for host, _ in ranks}
    logged = next((name for pattern, name in NETWORKS if re.search(pattern, text)), "")
    threads = re.search(r"nThread \d+ nGpus (\d+)", text)
    whole = threads is not None and int(threads.group(1)) * len(hosts) == len(ranks)
    base = {
        "system": f"{len(ranks)}x {ranks[0][1].strip()}",
        "fabric": network or logged,
        "nodes": str(len(hosts)),
        "gpus": str(len(ranks)),
        "collective": test.group(1),
        "note": f"_perf -g {threads.group(1)}" if whole and threads and len(ranks) > 1 else "",
    }
    rows = [
        base | {"size_bytes": size, "time_us": time, "algbw_GBps": rate, "busbw_GBps": bus}
        for size, time, rate, bus in LINE.findall(text)
        if float(time) > 0.0 and int(size) > 0
    ]
    measured, rejected = read_measured(rows)
    if not measured:
        why = rejected[0].why if rejected else "no line has a size and a time"
        raise InputError.one(
            where, f"no usable measurement: {why}", "name the network with --network"
        )
    return measured


def update_constants(items: Sequence[MeasuredCollective]) -> CollectiveUpdate:
    """Return the constants updated by measurements, with the shipped ones as prior."""
    table = tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8"))
    shipped = read_constants()
    free = [name for name, cell in table.items() if "spread" in cell]
    scale = ConstantScale([_prior(table[name]) for name in free])
    target = np.log([item.time_s for item in items])

    def constants(point: Array) -> NcclConstants:
        values = dict(zip(free, scale.values(point).tolist(), strict=True))
        return NcclConstants(values=dict(shipped.values) | values)

    def slopes(point: Array) -> tuple[Array, Array]:
        here = np.log(predicted_s(items, constants(point)))
        step = 1e-4 * np.eye(len(point))
        columns = [(np.log(predicted_s(items, constants(point + d))) - here) / 1e-4 for d in step]
        return here, np.column_stack(columns)

    # The points of one table share its error: n points weigh as much as √n.
    weight = np.full(len(items), 1.0 / np.sqrt(len(items)))
    start, penalty = np.zeros(len(free)), np.ones(len(free))
    solution = solve(slopes, target, start, penalty, weight, REPEAT_ERROR, LOOSE_TOLERANCE)
    fitted = constants(solution.point)
    old, new = (np.log(predicted_s(items, c)) for c in (shipped, fitted))
    left = target - new
    spread = float(np.hypot(np.std(left), MIN_ERROR)) * 1.645
    return CollectiveUpdate(
        constants=fitted,
        moved={
            name: (shipped.values[name], fitted.values[name])
            for name in free
            if abs(np.log(fitted.values[name] / shipped.values[name])) > 0.01
        },
        before=float(np.abs(np.expm1(old - target)).mean()),
        after=float(np.abs(np.expm1(new - target)).mean()),
        bar=ErrorBar(low=-spread, high=spread),
        points=len(items),
    )


def _prior(cell: dict[str, float]) -> dict[str, float]:
    """Return the shipped value and its standard error as a prior."""
    value, limit = cell["value"], cell.get("limit")
    slope = value * (1.0 - value / limit) if limit else value
    prior = {"start": value, "spread": max(cell["standard_error"] / slope, MIN_SPREAD)}
    return prior | ({"limit": limit} if limit else {})
