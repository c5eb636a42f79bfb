"""A plan as a table of options, one option in full, and a page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.plan.option import BreakdownTerm, Option, ParallelLayout, Plan
from gpuyard.report.inference import (
    consumption_label,
    service_facts,
    service_sections,
    service_table,
)
from gpuyard.report.memory_bars import memory_section
from gpuyard.report.page import headline, html_table, page
from gpuyard.report.pareto_plot import pareto_plot
from gpuyard.report.recommendation import range_words, reasons, recommendation
from gpuyard.report.svg import Bar, stacked_bars
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.units import (
    BYTES,
    BYTES_PER_S,
    COUNT,
    DURATION,
    MEMORY,
    MONEY,
    PRICE_PER_HOUR,
    RATIO,
    TOKENS,
    show,
)

JOULES_PER_MWH = 3.6e9
LEAST_RATIO = 1e-9  # of a sum: less is rounding


def plan_table(plan: Plan, top: int) -> Table:
    """The best options, one per row."""
    if any(option.service for option in plan.options):
        return service_table(plan, top, _plan_notes(plan, top, "latency"))
    headings = (
        "#",
        "machine",
        "count",
        "chips",
        "precision",
        "layout",
        "step",
        "MFU",
        "memory",
        "time",
        "cost",
        "consumption",
        "",
    )
    numeric = ("#", "count", "chips", "step", "MFU", "memory", "time", "cost")
    rows = tuple(_row(number, option) for number, option in enumerate(plan.options[:top], start=1))
    return Table(
        columns=table_columns(*headings, numeric=numeric),
        rows=rows,
        notes=_plan_notes(plan, top, "time"),
    )


def text_notes(plan: Plan) -> tuple[str, ...]:
    """Notes under the lines of a plan: legend, what was searched, rejected families."""
    services = any(option.service for option in plan.options)
    legend = "chance: of meeting the limit most at risk; options below the confidence come last"
    stops = "stops: interruptions expected during the run"
    pools = "a + b P/D: a prefill replicas and b decode replicas (disaggregated)"
    apart = any(option.service and option.service.prefill for option in plan.options)
    rejected = tuple(
        f"rejected ({why}): {', '.join(families)}" for why, families in _rejected(plan).items()
    )
    limited = any(option.limits for option in plan.options)
    legends = (legend if limited else "", "" if services else stops, pools if apart else "")
    return (*(text for text in legends if text), _count(plan), *plan.notes, *rejected)


def _plan_notes(plan: Plan, top: int, measure: str) -> tuple[str, ...]:
    rejected = tuple(
        f"rejected ({why}): {', '.join(families)}" for why, families in _rejected(plan).items()
    )
    marked = any(option.on_pareto_front for option in plan.options[:top])
    front = f"* on the Pareto front of {measure}, cost and chips" if marked else ""
    doubted = any(option.service and option.service.risks for option in plan.options[:top])
    doubt = (
        "? a target is met only nominally, below the confidence; such options come last"
        if doubted
        else ""
    )
    apart = any(option.service and option.service.prefill for option in plan.options[:top])
    pools = "a + b: a prefill replicas and b decode replicas (disaggregated)" if apart else ""
    return tuple(
        note for note in (front, doubt, pools, _count(plan), *plan.notes, *rejected) if note
    )


def _rejected(plan: Plan) -> dict[str, list[str]]:
    """Rejected families, grouped by reason."""
    groups: dict[str, list[str]] = {}
    for item in plan.rejected:
        groups.setdefault(f"{item.binding}: {item.what}", []).append(item.family)
    return groups


def _count(plan: Plan) -> str:
    if not plan.searched_count:
        return ""  # several plans together
    label = "engines" if any(option.service for option in plan.options) else "times as of"
    profile = f", {label} {plan.profile}" if plan.profile else ""
    return f"{plan.searched_count:,} candidates{profile}"


def _row(number: int, option: Option) -> tuple[str, ...]:
    bill = option.bill
    return (
        str(number),
        option.cluster.machine,
        str(option.cluster.machine_count),
        f"{option.cluster.chip_count:g}",
        option.precision,
        layout_words(option.arrangement),
        show(option.step_s, DURATION) if option.arrangement else NOT_KNOWN,
        show(option.mfu_ratio, RATIO) if option.mfu_ratio else NOT_KNOWN,
        show(option.memory_bytes, BYTES) if option.memory_bytes else NOT_KNOWN,
        _expected(option),
        show(bill.usd, MONEY) if bill else NOT_KNOWN,
        consumption_label(bill),
        "*" if option.on_pareto_front else "",
    )


def _expected(option: Option) -> str:
    """Expected time with its 90 % interval."""
    time = show(option.expected_s, DURATION)
    predicted = option.prediction("time_s")
    return time if predicted is None else f"{time} ({range_words(predicted, DURATION)})"


def layout_words(arrangement: ParallelLayout | None) -> str:
    """The parallelism layout in short form: TP8 PP4 DP16."""
    if arrangement is None:
        return NOT_KNOWN
    degrees = (
        ("TP", arrangement.tp),
        ("PP", arrangement.pp),
        ("CP", arrangement.cp),
        ("EP", arrangement.ep),
    )
    words = [f"{name}{degree}" for name, degree in degrees if degree > 1] + [f"DP{arrangement.dp}"]
    if arrangement.virtual_stages > 1:
        words.append(f"VP{arrangement.virtual_stages}")
    words.append(f"mb{arrangement.micro_batch}")
    if arrangement.sharding != "none":
        words.append(
            {"optimizer": "ZeRO-1", "parameters": "FSDP", "hybrid": "HSDP"}[arrangement.sharding]
        )
    if arrangement.recompute != "none":
        words.append(f"recompute-{arrangement.recompute}")
    if arrangement.offload != "none":
        words.append(f"offload-{arrangement.offload}")
    return " ".join(words)


def explain_option(plan: Plan, number: int) -> tuple[Table, ...]:
    """One option in full, as tables."""
    option = plan.options[number - 1]
    trains, needs = option.arrangement is not None, option.storage_need
    unit = (
        MEMORY if option.service else BYTES
    )  # serving fills what the driver shows, training what the data sheet prints
    return (
        _why(plan, number),
        service_facts(option) if option.service else _facts(option),
        _sum(
            "step time" if trains else "time",
            option.step_parts,
            lambda value: show(value, DURATION, 4),
        ),
        _sum(
            "peak memory per chip" if option.cluster.chip else "memory per machine",
            option.memory_parts,
            lambda value: show(value, unit, 4),
        ),
        *((_bills(option),) if option.bills else ()),
        _platforms(option),
        *((_storage(option),) if needs and (option.storage or needs.read_bytes_per_s) else ()),
    )


def _why(plan: Plan, number: int) -> Table:
    columns = table_columns("why", "")
    return Table(columns=columns, rows=tuple(reasons(plan, number)))


def _facts(option: Option) -> Table:
    cluster, expected = option.cluster, show(option.expected_s, DURATION)
    chips = f" ({cluster.chip_count:g} × {cluster.chip})" if cluster.chip else ""
    rows = [("cluster", f"{cluster.machine_count} × {cluster.machine}{chips}")]
    if option.arrangement is not None:
        rows += [
            ("layout", layout_words(option.arrangement)),
            ("steps", f"{option.steps_count:,.0f} of {show(option.step_s, DURATION, 4)}"),
        ]
    predicted = option.prediction("time_s")
    if predicted is not None:
        expected += f", nine of ten runs within {range_words(predicted, DURATION)}"
    if option.software:
        rows.append(("software", option.software))
    rows += [
        ("precision", option.precision),
        ("without interruption", show(option.ideal_s, DURATION)),
        ("expected", expected),
        (
            "memory",
            f"{show(option.memory_bytes, BYTES)} of {show(option.memory_capacity_bytes, BYTES)}",
        ),
        ("network", option.network),
    ]
    if option.tokens_per_s:
        rows.append(("throughput", f"{show(option.tokens_per_s, TOKENS)} tokens/s"))
    if option.energy_joules:
        rows.append(("energy", f"{show(option.energy_joules / JOULES_PER_MWH, COUNT)} MWh"))
    rows += [("because", reason) for reason in option.reasons]
    return Table(columns=table_columns("option", ""), rows=tuple(rows))


def _sum(title: str, parts: tuple[BreakdownTerm, ...], words: object) -> Table:
    assert callable(words)
    total = sum(part.value for part in parts) or 1.0
    known = sorted(
        (part for part in parts if part.value > LEAST_RATIO * total), key=lambda part: -part.value
    )
    rows = tuple(
        (part.name, str(words(part.value)), show(part.value / total, RATIO)) for part in known
    )
    total_row = ("sum", str(words(sum(part.value for part in parts))), "")
    columns = table_columns(title, ">", ">share")
    return Table(columns=columns, rows=(*rows, total_row))


def _bills(option: Option) -> Table:
    headings = ("consumption", "region", "rate", "billed time", "cost", "note")
    rows = tuple(
        (
            bill.consumption,
            bill.region,
            show(bill.usd_per_hour, PRICE_PER_HOUR),
            show(bill.billed_s, DURATION),
            show(bill.usd, MONEY),
            bill.note,
        )
        for bill in option.bills
    )
    return Table(columns=table_columns(*headings), rows=rows)


def _platforms(option: Option) -> Table:
    columns = table_columns("platform", "suits", "why")
    rows = tuple(
        (item.platform, "yes" if item.suits else "no", item.why) for item in option.platforms
    )
    return Table(columns=columns, rows=rows)


def _storage(option: Option) -> Table:
    columns = table_columns("storage", "size", "reads", "why")
    rows = tuple(
        (
            pick.storage,
            show(pick.size_bytes, BYTES),
            show(pick.read_bytes_per_s, BYTES_PER_S),
            pick.why,
        )
        for pick in option.storage
    )
    need = option.storage_need
    if need is None:
        return Table(columns=columns, rows=rows)
    reads, writes = (
        show(need.read_bytes_per_s, BYTES_PER_S),
        show(need.checkpoint_write_bytes_per_s, BYTES_PER_S),
    )
    note = (
        f"needs {reads} of reads, and checkpoints of {show(need.checkpoint_bytes, BYTES)} written"
        f" at {writes}"
    )
    return Table(columns=columns, rows=rows, notes=(note,))


def plan_page(plan: Plan, top: int, extra: Sequence[str] = (), stamp: str = "") -> str:
    """The plan as a self-contained page: the answer, plots, table, and `extra`."""
    first, *others = recommendation(plan)
    answer = "".join(f"<p>{escape(text)}</p>" for text in others)
    sections = [headline(first), answer, *plan_sections(plan, top), *extra]
    return page(f"Plan: {plan.workload}", sections, stamp)


def option_section(plan: Plan, number: int) -> str:
    """One serving option in full, as HTML."""
    return f"<h2>Option {number} in full</h2>{html_table(service_facts(plan.options[number - 1]))}"


def plan_sections(plan: Plan, top: int) -> list[str]:
    """Sections of the plan page, as HTML."""
    priced = [option for option in plan.options if option.usd]
    # Machines that are bought have no price by the hour: their front is over time and chips.
    chips = [option for option in plan.options if option.expected_s and option.cluster.chip_count]
    sections: list[str] = []
    if any(option.service for option in plan.options):
        return [*sections, *service_sections(plan, top, plan_table(plan, top))]
    if priced:
        plot = pareto_plot(priced, "cost", lambda y: show(y, MONEY, 3), _label)
        sections.append(f"<h2>Time and cost</h2>{plot}")
    elif len(chips) > 1:
        plot = pareto_plot(chips, "chips", lambda y: f"{y:,.0f}", _label)
        sections.append(f"<h2>Time and chips</h2>{plot}")
    bars = [
        Bar(
            label=f"{option.cluster.machine_count} × {option.cluster.machine} {option.precision}",
            parts=tuple((part.name, part.value) for part in option.step_parts),
        )
        for option in plan.options[:top]
    ]
    if bars and any(option.arrangement for option in plan.options):
        sections.append(
            f"<h2>Step time breakdown</h2>{stacked_bars(bars, lambda s: show(s, DURATION))}"
        )
    elif bars:
        sections.append(
            f"<h2>Where the time goes</h2>{stacked_bars(bars, lambda s: show(s, DURATION))}"
        )
    sections += memory_section(plan.options[:top], BYTES)
    sections.append(f"<h2>Options</h2>{html_table(plan_table(plan, top))}")
    return sections


def _label(option: Option) -> str:
    cluster = f"{option.cluster.machine_count} × {option.cluster.machine}, {option.precision}"
    cost = show(option.usd, MONEY) if option.usd else NOT_KNOWN
    return (
        f"{cluster}, {layout_words(option.arrangement)}: {show(option.expected_s, DURATION)},"
        f" {cost}"
    )
