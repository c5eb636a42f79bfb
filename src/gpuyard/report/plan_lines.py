"""A plan as text of 80 columns: the recommendation, its reasons, and one line per option."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpuyard.plan.option import Option, Plan
from gpuyard.report.inference import consumption_label, service_layout_text
from gpuyard.report.recommendation import cluster_words, price_words, recommendation
from gpuyard.report.table import NOT_KNOWN
from gpuyard.units import DURATION, show

WIDTH = 80
Column = tuple[str, int, bool]  # heading, width, right-aligned
RUN: tuple[Column, ...] = (
    ("#", 2, True),
    ("machines", 25, False),
    ("time (90 %)", 16, False),
    ("cost", 7, True),
    ("by", 11, False),
    ("stops", 5, True),
    ("chance", 6, True),
)
SERVICE: tuple[Column, ...] = (
    ("#", 2, True), ("machines", 22, False), ("layout", 11, False), ("TTFT", 6, True),
    ("TPOT", 6, True), ("cost", 8, True), ("by", 11, False), ("chance", 6, True),
)  # fmt: skip


# A single-pass model has no tokens: the mean and p99 latency of a request.
SINGLE_PASS = tuple(
    ({"layout": "format", "TTFT": "mean", "TPOT": "p99"}.get(heading, heading), width, right)
    for heading, width, right in SERVICE
)


def plan_text(plan: Plan, top: int, notes: Sequence[str]) -> str:
    """The plan for a terminal: recommendation and reasons, options, notes."""
    services = any(option.service for option in plan.options)
    columns = SERVICE if services else RUN
    if services and all(
        option.service is None or not option.service.tpot for option in plan.options
    ):
        columns = SINGLE_PASS
    rows = [
        _service_cells(number, option) if services else _run_cells(number, option)
        for number, option in enumerate(plan.options[:top], start=1)
    ]
    lines = [
        *(line for text in recommendation(plan) for line in _wrapped(text)),
        "",
        _line([heading for heading, _, _ in columns], columns),
        *(_line(row, columns) for row in rows),
        "",
        *(line for note in notes for line in _wrapped(note)),
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _line(cells: Sequence[str], columns: Sequence[Column]) -> str:
    padded = [
        _fitted(cell, width).rjust(width) if right else _fitted(cell, width).ljust(width)
        for cell, (_, width, right) in zip(cells, columns, strict=True)
    ]
    return " ".join(padded).rstrip()


def _fitted(cell: str, width: int) -> str:
    """The cell, with its middle left out if it is too long: names differ at both ends."""
    if len(cell) <= width:
        return cell
    tail = (width - 1) // 3
    return f"{cell[: width - 1 - tail]}…{cell[len(cell) - tail :]}"


def chance_words(option: Option) -> str:
    """The chance of meeting the limit most at risk: `97%`."""
    if not option.limits:
        return NOT_KNOWN
    return f"{min(option.chance, 0.99):.0%}"


def _consumption(option: Option) -> str:
    return NOT_KNOWN if option.bill is None else consumption_label(option.bill)


def _cost(option: Option) -> str:
    return NOT_KNOWN if option.bill is None else price_words(option)


def _run_cells(number: int, option: Option) -> list[str]:
    predicted = option.prediction("time_s")
    time = NOT_KNOWN  # a service
    if predicted is not None:
        time = f"{show(predicted.low, DURATION, 2)}–{show(predicted.high, DURATION, 2)}"
    stops = f"{option.bill.interruptions_count:.0f}" if option.bill is not None else NOT_KNOWN
    return [
        str(number),
        cluster_words(option),
        time,
        _cost(option),
        _consumption(option),
        stops,
        chance_words(option),
    ]


def _service_cells(number: int, option: Option) -> list[str]:
    service = option.service
    assert service is not None, "a plan of services has services only"
    pool = service.prefill
    layout = service_layout_text(service) if service.tpot is not None else service.weights
    if pool is not None:
        layout = f"{pool.replicas} + {service.replicas} P/D"
    if service.tpot is None:
        latencies = (service.e2e.mean_s, service.e2e.p99_s)
    else:
        latencies = ((service.ttft or service.e2e).mean_s, service.tpot.mean_s)
    return [
        str(number),
        cluster_words(option),
        layout,
        *(show(value_s, DURATION, 2) for value_s in latencies),
        _cost(option),
        _consumption(option),
        chance_words(option),
    ]
