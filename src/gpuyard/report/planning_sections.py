"""Results of the planning stages as page sections: plan, step, link heat, fabric."""

from __future__ import annotations

from html import escape

from gpuyard.app.up_report import PlanningResults
from gpuyard.plan.option import Plan
from gpuyard.report.fabric import findings_table
from gpuyard.report.fabric_svg import fabric_svg
from gpuyard.report.heat import heat_sections
from gpuyard.report.page import html_table, titled
from gpuyard.report.plan import explain_option, plan_sections
from gpuyard.report.simulation_step import step_sections
from gpuyard.report.table import Table, table_columns
from gpuyard.simulate.comparison import StepRun

TOP, EXPLAINED = 20, 5


def planned_sections(planned: PlanningResults, drawing: str = "") -> tuple[tuple[str, str], ...]:
    """Name and HTML of every section; `drawing` goes above the fabric's findings."""
    return (
        ("plan", _plan(planned.plan)),
        ("simulation", _step(planned.step)),
        ("heat", _heat(planned)),
        ("fabric", _proof(planned, drawing)),
    )


def _plan(plan: Plan | None) -> str:
    if plan is None:
        return ""
    parts = [*plan_sections(plan, TOP), "<h2>Why</h2>"]
    for number, option in enumerate(plan.options[:EXPLAINED], start=1):
        words = (
            f"Option {number}: {option.cluster.machine_count} × {option.cluster.machine},"
            f" {option.precision}"
        )
        tables = "".join(titled(table) for table in explain_option(plan, number) if table.rows)
        parts.append(
            f"<details{' open' if number == 1 else ''}>"
            f"<summary>{escape(words)}</summary>{tables}</details>"
        )
    if plan.rejected:
        columns = table_columns("machines", "constraint", "reason", "fix")
        rows = tuple((item.family, item.binding, item.what, item.fix) for item in plan.rejected)
        parts.append(f"<h2>Rejected</h2>{html_table(Table(columns=columns, rows=rows))}")
    return "".join(parts)


def _step(step: StepRun | None) -> str:
    return (
        ""
        if step is None
        else "<h2>Simulated step</h2>" + "".join(step_sections(step)).replace("h2>", "h3>")
    )


def _heat(planned: PlanningResults) -> str:
    if planned.heat is None or planned.fabric is None:
        return ""
    return "<h2>Collective over the fabric</h2>" + "".join(
        heat_sections(planned.heat, planned.fabric.topology)
    )


def _proof(planned: PlanningResults, drawing: str) -> str:
    """The fabric's findings, and its drawing unless the heat map shows it."""
    if planned.fabric is None:
        return ""
    drawn = fabric_svg(planned.fabric) if planned.heat is None else ""
    proof = html_table(findings_table(planned.findings)) if planned.findings is not None else ""
    return f"<h2>Fabric</h2>{drawing}{drawn}{proof}"
