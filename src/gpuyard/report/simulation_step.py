"""A simulated training step: terms by both models, collectives, pipeline timeline."""

from __future__ import annotations

from html import escape

from gpuyard.report.curves import round_steps
from gpuyard.report.page import html_table, page
from gpuyard.report.svg import PALETTE, WIDTH, drawing, legend
from gpuyard.report.table import Table, table_columns
from gpuyard.simulate.comparison import StepRun
from gpuyard.simulate.step.timeline import StepEvent
from gpuyard.units import BYTES, BYTES_PER_S, DURATION, show

MOST_STAGES, MOST_EVENTS = 24, 12_000
LANES = ("compute", "inside", "network")


def step_table(run: StepRun) -> Table:
    """Terms of the step by the closed form and by flow simulation."""
    rows = [
        (part.name, show(part.closed_s, DURATION), show(part.simulated_s, DURATION))
        for part in run.parts
    ]
    rows += [
        ("step", show(run.closed_step_s, DURATION), show(run.simulated_step_s, DURATION)),
        (
            "exposed communication",
            show(run.closed_exposed_s, DURATION),
            show(run.exposed_s, DURATION),
        ),
        ("compute", "", show(run.compute_s, DURATION)),
        ("communication, overlapped or exposed", "", show(run.communication_s, DURATION)),
        ("simulated pass by pass", "", show(run.timeline_step_s, DURATION)),
    ]
    off = run.simulated_step_s / run.closed_step_s - 1.0
    difference = f"{abs(off):.2%} {'longer' if off > 0 else 'shorter'} than in closed form"
    return Table(
        columns=table_columns("part", ">closed form", ">simulated"),
        rows=tuple(rows),
        title=(
            f"{run.workload}: {run.layout} on {run.machine_count} × {run.machine}, {run.precision}"
        ),
        notes=(
            f"over {run.network}, {run.balancing} balancing: the step is {difference}",
            run.scope,
            *run.notes,
        ),
    )


def phases_table(run: StepRun) -> Table:
    """Collectives of the step."""
    rows = tuple(
        (
            f"{phase.label}: {phase.collective}",
            phase.axis,
            f"{phase.ranks:,}",
            show(phase.size_bytes, BYTES),
            f"{phase.times:,.0f} ×",
            show(phase.closed_s, DURATION),
            show(phase.simulated_s, DURATION),
            show(phase.bus_bytes_per_s, BYTES_PER_S),
            phase.overlaps_with,
        )
        for phase in run.phases
    )
    return Table(
        columns=table_columns(
            "collective",
            "axis",
            ">ranks",
            ">size",
            ">per step",
            ">closed form",
            ">simulated",
            ">bus bandwidth",
            "overlaps with",
        ),
        rows=rows,
    )


def step_page(run: StepRun) -> str:
    """The step as a self-contained page."""
    return page(f"One step: {run.workload}", step_sections(run))


def step_sections(run: StepRun) -> list[str]:
    """Sections of the page, as HTML."""
    sections = [
        f"<h2>Parts of the step</h2>{html_table(step_table(run))}",
        f"<h2>Collectives</h2>{html_table(phases_table(run))}" if run.phases else "",
        f"<h2>Timeline</h2>{_timeline(run)}",
    ]
    return [section for section in sections if section]


def _timeline(run: StepRun) -> str:
    """Pipeline stages with compute, exposed communication and network use."""
    stages = sorted({event.stage for event in run.timeline.events})[:MOST_STAGES]
    lanes = [lane for lane in LANES if any(event.lane == lane for event in run.timeline.events)]
    kinds = list(dict.fromkeys(event.kind for event in run.timeline.events))
    colour = {kind: PALETTE[place % len(PALETTE)] for place, kind in enumerate(kinds)}
    end_s = max((event.end_s for event in run.timeline.events), default=1.0)
    left, row = 90, 13
    scale = (WIDTH - left - 10) / end_s
    places = {
        (stage, lane): (index * len(lanes) + number) * row + index * 5
        for index, stage in enumerate(stages)
        for number, lane in enumerate(lanes)
    }
    body = [
        f'<text x="{left - 6}" y="{y + 10}" text-anchor="end" font-size="9">{stage + 1}'
        f" {lane}</text>"
        for (stage, lane), y in places.items()
    ]
    shown = [event for event in run.timeline.events if (event.stage, event.lane) in places][
        :MOST_EVENTS
    ]
    body += [
        _bar(event, places[event.stage, event.lane], left, scale, colour[event.kind])
        for event in shown
    ]
    height = len(places) * row + len(stages) * 5
    body += [
        f'<text x="{left + value * scale:.1f}" y="{height + 12}" text-anchor="middle"'
        f' font-size="10">{show(value, DURATION) if value else "0"}</text>'
        for value in round_steps(0.98 * end_s)
    ]
    return drawing(height + 18, "".join(body)) + legend([(kind, colour[kind]) for kind in kinds])


def _bar(event: StepEvent, y: int, left: float, scale: float, colour: str) -> str:
    tooltip = f"{event.kind} {event.micro + 1}" if event.micro >= 0 else event.kind
    width = max(0.2, (event.end_s - event.begin_s) * scale)
    return (
        f'<rect x="{left + event.begin_s * scale:.2f}" y="{y}" width="{width:.2f}" height="11"'
        f' fill="{colour}" fill-opacity=".8">'
        f"<title>{escape(tooltip)}: {show(event.begin_s, DURATION)}"
        f" to {show(event.end_s, DURATION)}</title></rect>"
    )
