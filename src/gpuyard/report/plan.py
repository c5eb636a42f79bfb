"""A plan told: the table of options, one option in full, and the page with its pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuyard.plan import Arrangement, Option, Part, Plan
from gpuyard.report.inference import service_facts, service_sections, service_table, way_words
from gpuyard.report.page import html_table, page
from gpuyard.report.svg import Axis, Bar, Point, scatter, stacked_bars
from gpuyard.report.table import NOT_KNOWN, Column, Table
from gpuyard.units import BYTES, BYTES_PER_S, COUNT, DURATION, MEMORY, MONEY, PRICE_PER_HOUR, RATIO, TOKENS, show

__all__ = ["explain_option", "option_section", "plan_page", "plan_sections", "plan_table"]

JOULES_PER_MWH = 3.6e9
DAY_S = 86400.0
LEAST_RATIO = 1e-9  # of a sum: less is rounding
UNPROVEN_RATIO = 1.0  # no published runs to take an error bar from


def plan_table(plan: Plan, top: int) -> Table:
    """The best options, one a row."""
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
        "by",
        "",
    )
    numeric = ("#", "count", "chips", "step", "MFU", "memory", "time", "cost")
    rows = tuple(_row(number, option) for number, option in enumerate(plan.options[:top], start=1))
    return Table(
        columns=tuple(Column(heading=heading, numeric=heading in numeric) for heading in headings),
        rows=rows,
        notes=_plan_notes(plan, top, "time"),
    )


def _plan_notes(plan: Plan, top: int, measure: str) -> tuple[str, ...]:
    """What stands below the table."""
    rejected = tuple(f"out, {why}: {', '.join(families)}" for why, families in _rejected(plan).items())
    marked = any(option.on_front for option in plan.options[:top])
    front = f"* nothing is better in {measure}, cost and number of chips at once" if marked else ""
    doubted = any(option.service and option.service.doubts for option in plan.options[:top])
    doubt = "? a target may be missed: wide error bars, or cold starts; such options come last" if doubted else ""
    apart = any(option.service and option.service.prefill for option in plan.options[:top])
    pools = "a + b: a replicas read prompts and hand their caches to b that write" if apart else ""
    return tuple(note for note in (front, doubt, pools, _count(plan), *plan.notes, *rejected) if note)


def _rejected(plan: Plan) -> dict[str, list[str]]:
    """The families that one reason rules out, by the reason."""
    groups: dict[str, list[str]] = {}
    for item in plan.rejected:
        groups.setdefault(f"{item.binding}: {item.what}", []).append(item.family)
    return groups


def _count(plan: Plan) -> str:
    """How much was looked at."""
    told = "engines" if any(option.service for option in plan.options) else "times as of"
    profile = f", {told} {plan.profile}" if plan.profile else ""
    return f"{plan.searched_count:,} candidates{profile}"


def _row(number: int, option: Option) -> tuple[str, ...]:
    """One option's cells."""
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
        way_words(bill),
        "*" if option.on_front else "",
    )


def _expected(option: Option) -> str:
    """The expected time with its error bar, where published runs give one."""
    time = show(option.expected_s, DURATION)
    return f"{time} ±{show(option.error_ratio, RATIO, 2)}" if option.error_ratio < UNPROVEN_RATIO else time


def layout_words(arrangement: Arrangement | None) -> str:
    """The layout as engineers write it: TP8 PP4 DP16."""
    if arrangement is None:
        return NOT_KNOWN
    degrees = (("TP", arrangement.tp), ("PP", arrangement.pp), ("CP", arrangement.cp), ("EP", arrangement.ep))
    words = [f"{name}{degree}" for name, degree in degrees if degree > 1] + [f"DP{arrangement.dp}"]
    if arrangement.virtual_stages > 1:
        words.append(f"VP{arrangement.virtual_stages}")
    words.append(f"mb{arrangement.micro_batch}")
    if arrangement.sharding != "none":
        words.append({"optimizer": "ZeRO-1", "parameters": "FSDP", "hybrid": "HSDP"}[arrangement.sharding])
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
        service_facts(option) if option.service else _facts(option),
        _sum("step time" if trains else "time", option.step_parts, lambda value: show(value, DURATION, 4)),
        _sum(
            "memory of the fullest chip" if option.cluster.chip else "memory of a machine",
            option.memory_parts,
            lambda value: show(value, unit, 4),
        ),
        *((_bills(option),) if option.bills else ()),
        _platforms(option),
        *((_storage(option),) if needs and (option.storage or needs.read_bytes_per_s) else ()),
    )


def _facts(option: Option) -> Table:
    """What does not add up to a sum."""
    cluster, expected = option.cluster, show(option.expected_s, DURATION)
    chips = f" ({cluster.chip_count:g} × {cluster.chip})" if cluster.chip else ""
    rows = [("cluster", f"{cluster.machine_count} × {cluster.machine}{chips}")]
    if option.arrangement is not None:
        rows += [
            ("layout", layout_words(option.arrangement)),
            ("steps", f"{option.steps_count:,.0f} of {show(option.step_s, DURATION, 4)}"),
        ]
    if option.error_ratio < UNPROVEN_RATIO:
        expected += f", nine of ten runs within ±{show(option.error_ratio, RATIO)}"
    rows += [
        ("precision", option.precision),
        ("without interruption", show(option.ideal_s, DURATION)),
        ("expected", expected),
        ("memory", f"{show(option.memory_bytes, BYTES)} of {show(option.memory_capacity_bytes, BYTES)}"),
        ("network", option.network),
    ]
    if option.tokens_per_s:
        rows.append(("throughput", f"{show(option.tokens_per_s, TOKENS)} tokens/s"))
    if option.energy_joules:
        rows.append(("energy", f"{show(option.energy_joules / JOULES_PER_MWH, COUNT)} MWh"))
    rows += [("because", reason) for reason in option.reasons]
    return Table(columns=(Column(heading="option"), Column(heading="")), rows=tuple(rows))


def _sum(title: str, parts: tuple[Part, ...], words: object) -> Table:
    """Parts and their shares."""
    assert callable(words)
    total = sum(part.value for part in parts) or 1.0
    known = sorted((part for part in parts if part.value > LEAST_RATIO * total), key=lambda part: -part.value)
    rows = tuple((part.name, str(words(part.value)), show(part.value / total, RATIO)) for part in known)
    total_row = ("sum", str(words(sum(part.value for part in parts))), "")
    columns = (Column(heading=title), Column(heading="", numeric=True), Column(heading="share", numeric=True))
    return Table(columns=columns, rows=(*rows, total_row))


def _bills(option: Option) -> Table:
    """What it costs by each way of paying."""
    headings = ("way", "region", "rate", "time paid", "cost", "note")
    rows = tuple(
        (bill.way, bill.region, show(bill.usd_per_hour, PRICE_PER_HOUR), show(bill.billed_s, DURATION),
         show(bill.usd, MONEY), bill.note)
        for bill in option.bills
    )  # fmt: skip
    return Table(columns=tuple(Column(heading=heading) for heading in headings), rows=rows)


def _platforms(option: Option) -> Table:
    """Where it can be provisioned."""
    columns = (Column(heading="platform"), Column(heading="suits"), Column(heading="why"))
    rows = tuple((item.platform, "yes" if item.suits else "no", item.why) for item in option.platforms)
    return Table(columns=columns, rows=rows)


def _storage(option: Option) -> Table:
    """What it reads and writes, and from where."""
    columns = (Column(heading="storage"), Column(heading="size"), Column(heading="reads"), Column(heading="why"))
    rows = tuple(
        (pick.storage, show(pick.size_bytes, BYTES), show(pick.read_bytes_per_s, BYTES_PER_S), pick.why)
        for pick in option.storage
    )
    need = option.storage_need
    if need is None:
        return Table(columns=columns, rows=rows)
    reads, writes = show(need.read_bytes_per_s, BYTES_PER_S), show(need.checkpoint_write_bytes_per_s, BYTES_PER_S)
    note = f"needs {reads} of reads, and checkpoints of {show(need.checkpoint_bytes, BYTES)} written at {writes}"
    return Table(columns=columns, rows=rows, notes=(note,))


def plan_page(plan: Plan, top: int, extra: Sequence[str] = ()) -> str:
    """The plan as a self-contained page: the Pareto plot, where the time goes, the table, and `extra`."""
    return page(f"Plan: {plan.workload}", [*plan_sections(plan, top), *extra])


def option_section(plan: Plan, number: int) -> str:
    """One option of a service in words, as HTML."""
    return f"<h2>Option {number} in full</h2>{html_table(service_facts(plan.options[number - 1]))}"


def plan_sections(plan: Plan, top: int) -> list[str]:
    """The parts of the page, as HTML."""
    priced = [option for option in plan.options if option.usd]
    # Machines that are bought have no price by the hour: their front is over time and chips.
    chips = [option for option in plan.options if option.expected_s and option.cluster.chip_count]
    sections: list[str] = []
    if any(option.service for option in plan.options):
        return [*sections, *service_sections(plan, top, plan_table(plan, top))]
    if priced:
        sections.append(f"<h2>Time and cost</h2>{_front(priced, 'cost', lambda y: show(y, MONEY, 3))}")
    elif len(chips) > 1:
        sections.append(f"<h2>Time and chips</h2>{_front(chips, 'chips', lambda y: f'{y:,.0f}')}")
    bars = [
        Bar(
            label=f"{option.cluster.machine_count} × {option.cluster.machine} {option.precision}",
            parts=tuple((part.name, part.value) for part in option.step_parts),
        )
        for option in plan.options[:top]
    ]
    if bars:
        sections.append(f"<h2>Where a step's time goes</h2>{stacked_bars(bars, lambda s: show(s, DURATION))}")
    sections.append(f"<h2>Options</h2>{html_table(plan_table(plan, top))}")
    return sections


def _front(options: Sequence[Option], title: str, words: Callable[[float], str]) -> str:
    """Options over time and cost, or over time and chips; those on the front are joined."""
    points = [
        Point(
            x=option.expected_s,
            y=option.usd or option.cluster.chip_count,
            group=option.cluster.machine,
            label=_label(option),
            joined=option.on_front,
        )
        for option in options
    ]
    time = Axis(title="time", words=lambda x: show(x, DURATION, 3), unit=DAY_S if points[0].x > DAY_S else 3600.0)
    return scatter(points, time, Axis(title=title, words=words))


def _label(option: Option) -> str:
    """An option in one line, for a tooltip."""
    cluster = f"{option.cluster.machine_count} × {option.cluster.machine}, {option.precision}"
    cost = show(option.usd, MONEY) if option.usd else NOT_KNOWN
    return f"{cluster}, {layout_words(option.arrangement)}: {show(option.expected_s, DURATION)}, {cost}"
