"""Plot of options: time against cost, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuyard.plan.option import Option
from gpuyard.report.svg import Axis, ScatterPoint, scatter
from gpuyard.units import DAY_S, DURATION, HOUR_S, show

FAMILIES = (
    ("gb", "Blackwell"), ("b", "Blackwell"), ("rtx-pro", "Blackwell"), ("h", "Hopper"),
    ("a100", "Ampere"), ("l4", "Ada Lovelace"), ("mi", "AMD Instinct"), ("tpu", "TPU"),
)  # fmt: skip


def pareto_plot(
    options: Sequence[Option],
    title: str,
    words: Callable[[float], str],
    label: Callable[[Option], str],
) -> str:
    """Return a plot of time against cost or chips, with the front of these two joined.

    Rings mark options that are only on the front of time, cost and chips together.
    """
    heights = [option.usd or option.cluster.chip_count for option in options]
    front = front_of_two([option.expected_s for option in options], heights)
    points = [
        ScatterPoint(
            x=option.expected_s,
            y=height,
            group=chip_family(option.cluster.chip),
            kind=option.bill.consumption if option.bill else "",
            label=label(option),
            joined=joined,
            ringed=option.on_pareto_front and not joined,
            chosen=number == 0,  # options are ranked, the best first
            name=f"{option.cluster.machine_count} × {option.cluster.machine}"
            if joined or number == 0
            else "",
        )
        for number, (option, height, joined) in enumerate(zip(options, heights, front, strict=True))
    ]
    time = Axis(
        title="time",
        words=lambda x: show(x, DURATION, 3),
        unit=DAY_S if points[0].x > DAY_S else HOUR_S,
    )
    caption = (
        f"Dashed line: Pareto front of time and {title}. Thin ring: on the Pareto front of time,"
        " cost and chips. Thick ring: option 1."
    )
    return scatter(points, time, Axis(title=title, words=words)) + f"<p>{caption}</p>"


def front_of_two(xs: Sequence[float], ys: Sequence[float]) -> list[bool]:
    """Return for each point whether no other is lower in one coordinate and not higher in both."""
    best = float("inf")
    front = [False] * len(xs)
    for index in sorted(range(len(xs)), key=lambda index: (xs[index], ys[index])):
        if ys[index] < best:
            front[index], best = True, ys[index]
    return front


def chip_family(chip: str | None) -> str:
    """Return the generation that a chip is drawn with: at most eight, for eight clear colours."""
    if chip is None:
        return "CPU"
    return next((family for prefix, family in FAMILIES if chip.startswith(prefix)), "older GPU")
