"""A serving plan as a table of options, one option in full, and a page with plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from gpuyard.plan.option import Bill, Option, Plan
from gpuyard.plan.service import FrontierPoint, LatencyStats, Service, layout_text
from gpuyard.report.memory_bars import memory_section
from gpuyard.report.page import html_table
from gpuyard.report.svg import Axis, Bar, ScatterPoint, scatter, stacked_bars
from gpuyard.report.table import NOT_KNOWN, Table, TableColumn, table_columns
from gpuyard.units import DURATION, MEMORY, MONEY, PRICE_PER_HOUR, RATIO, TOKENS, YEAR_S, show

JOULES_PER_KWH = 3.6e6


def service_layout_text(service: Service) -> str:
    """The layout in short form; prefill pool first for disaggregated serving."""
    written = layout_text(service.tp, service.pp, service.ep, service.attention_dp)
    pool = service.prefill
    return f"{layout_text(pool.tp, 1, pool.ep, pool.attention_dp)} + {written}" if pool else written


def service_table(plan: Plan, top: int, notes: tuple[str, ...]) -> Table:
    """The best options, one per row."""
    writes = any(option.service and option.service.tpot for option in plan.options)
    columns, rows = service_rows(plan, top) if writes else _pass_rows(plan, top)
    return Table(columns=columns, rows=rows, notes=notes)


def service_rows(
    plan: Plan, top: int
) -> tuple[tuple[TableColumn, ...], tuple[tuple[str, ...], ...]]:
    """Columns and cells for LLM services."""
    rows = []
    for number, option in enumerate(plan.options[:top], start=1):
        service, bill = option.service, option.bill
        assert service is not None, "asked for before"
        assert service.ttft is not None, "of a model that writes tokens"
        assert service.tpot is not None, "of a model that writes tokens"
        rows.append(
            (
                str(number),
                option.cluster.machine,
                str(option.cluster.machine_count),
                (
                    f"{service.prefill.replicas} + {service.replicas}"
                    if service.prefill
                    else str(service.replicas)
                ),
                service_layout_text(service),
                service.weights,
                service.kv,
                f"{service.batch_count:.0f}",
                _mean(service.ttft),
                _mean(service.tpot),
                show(service.e2e.p99_s, DURATION),
                f"{service.tokens_per_s_per_user:.0f}",
                f"{service.tokens_per_s_per_chip:,.0f}",
                show(bill.usd_per_hour, PRICE_PER_HOUR) if bill else NOT_KNOWN,
                _price(service.usd_per_million_tokens),
                consumption_label(bill),
                service.engine.label,
                f"{'*' if option.on_pareto_front else ''}{'?' if service.risks else ''}",
            )
        )
    return table_columns(
        ">#",
        "machine",
        ">count",
        ">replicas",
        "layout",
        "weights",
        "KV",
        ">batch",
        ">TTFT",
        ">TPOT",
        ">p99",
        ">tok/s/user",
        ">tok/s/chip",
        ">cost",
        ">$/M tokens",
        "consumption",
        "engine",
        "",
    ), tuple(rows)


def _pass_rows(plan: Plan, top: int) -> tuple[tuple[TableColumn, ...], tuple[tuple[str, ...], ...]]:
    """Columns and cells for single-pass models."""
    rows = []
    for number, option in enumerate(plan.options[:top], start=1):
        service, bill = option.service, option.bill
        assert service is not None, "asked for before"
        rows.append(
            (
                str(number),
                option.cluster.machine,
                str(option.cluster.machine_count),
                f"{option.cluster.chip_count:g}",
                service.weights,
                f"{service.batch_count:.1f}",
                str(service.max_sequences_count),
                _mean(service.e2e),
                show(service.e2e.p99_s, DURATION),
                show(bill.usd_per_hour, PRICE_PER_HOUR) if bill else NOT_KNOWN,
                _price(service.usd_per_million_tokens),
                consumption_label(bill),
                service.engine.label,
                f"{'*' if option.on_pareto_front else ''}{'?' if service.risks else ''}",
            )
        )
    return table_columns(
        ">#",
        "machine",
        ">count",
        ">chips",
        "format",
        ">batch",
        ">of",
        ">mean",
        ">p99",
        ">cost",
        ">$/M requests",
        "consumption",
        "engine",
        "",
    ), tuple(rows)


def _mean(spread: LatencyStats) -> str:
    return f"{show(spread.mean_s, DURATION)} ±{show(spread.error_ratio, RATIO, 2)}"


def _price(usd: float | None) -> str:
    return NOT_KNOWN if usd is None else show(usd, MONEY)


def consumption_label(bill: Bill | None) -> str:
    """Consumption option of a bill, with its commitment or platform billing."""
    if bill is None:
        return "no public price"
    if bill.price.startswith("serverless/"):
        return "Cloud Run"
    return f"{bill.consumption}, {bill.term_s / YEAR_S:.0f} y" if bill.term_s else bill.consumption


def service_facts(option: Option) -> Table:
    """One option's service as a table of facts."""
    service, cluster = option.service, option.cluster
    assert service is not None, "callers ask for a service"
    chips = f" ({cluster.chip_count:g} × {cluster.chip})" if cluster.chip else ""
    rows = [
        ("cluster", f"{cluster.machine_count} × {cluster.machine}{chips}"),
        *_replicas(service),
        ("format", f"{service.weights} weights" + (f", {service.kv} cache" if service.kv else "")),
        ("batch", _batch(service)),
    ]
    known = (
        ("first token", service.ttft),
        ("each further token", service.tpot),
        ("end to end", service.e2e),
    )
    rows += [(name, _spread(spread)) for name, spread in known if spread]
    rows += [("rates", _rates(service)), ("cost", _cost(service)), ("network", option.network)]
    if service.joules_per_token is not None and option.energy_joules is not None:
        unit = "token" if service.tpot else "request"
        hourly = f"{option.energy_joules / JOULES_PER_KWH:,.1f} kWh per hour"
        rows.append(
            ("energy", f"{service.joules_per_token:,.2f} J per {unit} at full power, {hourly}")
        )
    rows.append(
        (
            "engine",
            (
                f"{service.engine.label}: {service.engine.note}"
                if service.engine.note
                else service.engine.label
            ),
        )
    )
    rows += _starts(service)
    rows += _scaling(service)
    rows += [("because", reason) for reason in option.reasons]
    return Table(columns=table_columns("option", ""), rows=tuple(rows))


def _replicas(service: Service) -> list[tuple[str, str]]:
    """Number of replicas, and how the KV cache is transferred between pools."""
    spare = f", {service.spare_replicas} of them spare" if service.spare_replicas else ""
    pool = service.prefill
    if pool is None:
        return [
            (
                "replicas",
                f"{service.replicas}{spare}"
                + (f", {service_layout_text(service)} each" if service.tpot else ""),
            )
        ]
    reads, _, writes = service_layout_text(service).partition(" + ")
    return [
        (
            "prefill",
            (
                f"{pool.replicas} replicas, {reads} each: one prompt in"
                f" {show(pool.prefill_s, DURATION)} alone"
            ),
        ),
        (
            "KV-cache transfer",
            (f"{show(pool.kv_transfer_s, DURATION)} per prompt, over the RDMA network"),
        ),
        ("decode", f"{service.replicas} replicas{spare}, {writes} each"),
    ]


def _starts(service: Service) -> list[tuple[str, str]]:
    """Start commands of a replica, or of each pool and the router."""
    pool = service.prefill
    name = "start" if pool is None else "start one that writes"
    rows = [(name if at == 0 else "", line) for at, line in enumerate(service.engine.command)]
    if pool is None:
        return rows
    read = [
        ("start one that reads" if at == 0 else "", line)
        for at, line in enumerate(pool.engine.command)
    ]
    return [*read, *rows, ("start the router", pool.router), ("", pool.engine.note)]


def _batch(service: Service) -> str:
    budget = f", {service.budget_tokens:,} tokens per iteration" if service.budget_tokens else ""
    return (
        f"{service.batch_count:.1f} mean per replica, at most {service.max_sequences_count}{budget}"
    )


def _spread(spread: LatencyStats) -> str:
    values = [
        f"{name} {show(value, DURATION)}"
        for name, value in (
            ("mean", spread.mean_s),
            ("p50", spread.p50_s),
            ("p90", spread.p90_s),
            ("p99", spread.p99_s),
        )
    ]
    return ", ".join(values) + f"; 80 % interval ±{show(spread.error_ratio, RATIO)}"


def _rates(service: Service) -> str:
    if service.tpot is None:
        return (
            f"{service.requests_per_s:,.4g} requests/s, {service.tokens_per_s_per_chip:,.4g}/s per"
            " chip"
        )
    return (
        f"{service.requests_per_s:,.3g} requests/s, {show(service.output_tokens_per_s, TOKENS)}"
        f" tokens/s written, {service.tokens_per_s_per_chip:,.0f} a chip,"
        f" {service.tokens_per_s_per_user:.0f} for one user,"
        f" ±{show(service.rate_error_ratio, RATIO)}"
    )


def _cost(service: Service) -> str:
    if service.usd_per_million_tokens is None:
        return NOT_KNOWN
    if service.usd_per_million_output_tokens is None:
        return f"{_price(service.usd_per_million_tokens)} a million requests at this load"
    return (
        f"{_price(service.usd_per_million_tokens)} a million tokens read and written, "
        f"{_price(service.usd_per_million_output_tokens)} a million written, at this load"
    )


def _scaling(service: Service) -> list[tuple[str, str]]:
    scaling = service.autoscaling
    start = f"; a replica starts in {show(scaling.start_s, DURATION)}" if scaling.start_s else ""
    note = f"; {scaling.note}" if scaling.note else ""
    per_replica = f": about {scaling.requests_per_s:,.3g} requests/s each" if service.tpot else ""
    return [
        ("replicas from, to", f"{scaling.min_replicas} to {scaling.max_replicas}{start}{note}"),
        ("add one above", f"{scaling.target:,.0f} {scaling.metric}{per_replica}"),
    ]


def service_sections(plan: Plan, top: int, table: Table) -> list[str]:
    """Sections of the page: frontier, iteration time, table, start commands."""
    sections = frontier_section(plan.frontier)
    bars = [
        Bar(
            label=f"{option.cluster.machine_count} × {option.cluster.machine} {option.precision}",
            parts=tuple((part.name, part.value) for part in option.step_parts),
        )
        for option in plan.options[:top]
    ]
    words: Callable[[float], str] = lambda value: show(value, DURATION)  # noqa: E731
    if bars:
        sections.append(f"<h2>Step time breakdown</h2>{stacked_bars(bars, words)}")
    sections += memory_section(plan.options[:top], MEMORY)
    sections.append(f"<h2>Options</h2>{html_table(table)}")
    best = plan.options[0].service
    if best is not None:
        pool = best.prefill
        both = (
            (*pool.engine.command, *best.engine.command, pool.router)
            if pool
            else best.engine.command
        )
        lines = escape("\n".join(both))
        what = (
            "one replica of each pool, and the router, of option 1"
            if pool
            else "one replica of option 1"
        )
        sections.append(f"<h2>Start {what}</h2><pre>{lines}</pre><p>{escape(best.engine.note)}</p>")
    return sections


def frontier_section(points: Sequence[FrontierPoint]) -> list[str]:
    """Interactivity against throughput per GPU, with the Pareto front."""
    if not points:
        return []
    marks = [
        ScatterPoint(
            x=point.tokens_per_s_per_user,
            y=point.tokens_per_s_per_chip,
            group=point.chip,
            label=(
                f"{point.chip} {point.layout}, {point.weights} weights, {point.kv} cache,"
                f" {point.engine}, {point.sequences_count:.0f} sequences:"
                f" {point.tokens_per_s_per_user:.0f} tokens/s per user,"
                f" {point.tokens_per_s_per_chip:,.0f} per chip"
            ),
            joined=point.on_pareto_front,
            size=1.0 if point.on_pareto_front else 0.7,
        )
        for point in points
    ]
    plot = scatter(
        marks,
        Axis(title="output tokens/s per user", words=lambda value: f"{value:g}"),
        Axis(title="output tokens/s per chip", words=lambda value: f"{value:,g}"),
    )
    return [f"<h2>Throughput per chip against speed per user</h2>{plot}"]
