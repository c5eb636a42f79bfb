"""Two plans side by side, and the scaling of one machine type, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.plan.option import Option, Plan
from gpuyard.plan.scaling import ScalingPoint
from gpuyard.report.plan_lines import chance_words
from gpuyard.report.recommendation import price_words, range_words
from gpuyard.report.table import NOT_KNOWN, Table, TableColumn
from gpuyard.units import DURATION, MONEY, RATIO, show


def scaling_table(machine: str, points: Sequence[ScalingPoint]) -> Table:
    """Time, cost and efficiency per number of machines."""
    headings = (machine, "chips", "time", "cost", "efficiency", "")
    rows = tuple(
        (
            str(point.machine_count),
            f"{point.chip_count:g}",
            show(point.time_s, DURATION, 3),
            show(point.usd, MONEY, 3) if point.usd is not None else NOT_KNOWN,
            show(point.efficiency_ratio, RATIO, 2),
            "knee" if point.knee else "",
        )
        for point in points
    )
    columns = tuple(TableColumn(heading=name, numeric=bool(name)) for name in headings)
    notes = (
        "efficiency: fewest machine-hours of all counts over those of the row",
        "knee: beyond it, machine-hours rise by over a quarter",
    )
    return Table(columns=columns, rows=rows, notes=notes)


def comparison(names: Sequence[str], plans: Sequence[Plan], top: int) -> Table:
    """The first options of each plan, and where the other plan ranks the same machines."""
    rows: list[tuple[str, ...]] = []
    clusters = dict.fromkeys(
        (option.cluster.machine, option.cluster.machine_count)
        for plan in plans
        for option in plan.options[:top]
    )
    for machine, count in clusters:
        places = [_find(plan, machine, count) for plan in plans]
        rows.append((f"{count} × {machine}", *(cell for item in places for cell in _cells(item))))
    columns = [TableColumn(heading="machines")]
    for name in names:
        columns += [
            TableColumn(heading=f"{name} #", numeric=True),
            TableColumn(heading="cost", numeric=True),
            TableColumn(heading="time or TPOT", numeric=True),
            TableColumn(heading="chance", numeric=True),
        ]
    return Table(columns=tuple(columns), rows=tuple(rows))


def _find(plan: Plan, machine: str, count: int) -> tuple[int, Option] | None:
    numbered = enumerate(plan.options, start=1)
    return next(
        (
            (number, option)
            for number, option in numbered
            if (option.cluster.machine, option.cluster.machine_count) == (machine, count)
        ),
        None,
    )


def _cells(item: tuple[int, Option] | None) -> tuple[str, ...]:
    if item is None:
        return (NOT_KNOWN,) * 4
    number, option = item
    predicted = option.prediction("time_s") or option.prediction("tpot_s")
    time = range_words(predicted, DURATION) if predicted is not None else NOT_KNOWN
    return str(number), price_words(option), time, chance_words(option)
