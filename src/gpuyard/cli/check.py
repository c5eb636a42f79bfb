"""`gpuyard check FILE`."""

from __future__ import annotations

import argparse

from gpuyard.app.check import CheckResult, EligibleMachine, check_workload
from gpuyard.cli.options import add_catalog, add_json, add_option, workspace_of
from gpuyard.errors import EXIT_INFEASIBLE, Infeasible
from gpuyard.report.table import Table, show_value, table_columns
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.units import BYTES, COUNT, DURATION, MONEY, PRICE_PER_HOUR, TOKENS, show
from gpuyard.workload.workload import Workload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_option(parser, "FILE", "a workload file; `gpuyard init` writes one")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the file and print eligible machines."""
    answer = check_workload(workspace_of(arguments))
    here = answer.workload.where.provider == "local"
    if arguments.json:
        print_json(answer)
    else:
        print_text(f"{arguments.file}: valid\n{_summary(answer.workload)}\n")
        if answer.stages:
            print_text(f"  stages: {', '.join(answer.stages)}\n")
        if not here:
            print_table(_candidates(answer))
    if answer.candidates or here:
        return 0
    if not arguments.json:
        print_text(str(_nothing(answer)))
    return EXIT_INFEASIBLE


def _summary(workload: Workload) -> str:
    parts: list[str] = [workload.task]
    if workload.model:
        parts.append(
            f"{workload.model.label}, {show(workload.model.parameters_count, COUNT)} parameters"
        )
    if workload.data and workload.data.tokens:
        parts.append(f"{show(workload.data.tokens, TOKENS)} tokens")
    needs = workload.requirements
    if needs.deadline_s:
        parts.append(f"in {show(needs.deadline_s, DURATION)}")
    if needs.budget_usd:
        parts.append(f"for {show(needs.budget_usd, MONEY)}")
    return "  " + ", ".join(parts)


def _candidates(answer: CheckResult) -> Table:
    headings = (
        "machine",
        "chips",
        "chip",
        "memory",
        "network",
        "on demand",
        "spot",
        "region",
        "recommended",
    )
    numeric = ("chips", "memory", "on demand", "spot")
    count = len(answer.candidates)
    left_out = [f"excluded, {group.reason}: {_names(group.machines)}" for group in answer.left_out]
    return Table(
        columns=table_columns(*headings, numeric=numeric),
        rows=tuple(_row(candidate) for candidate in answer.candidates),
        notes=(f"{count} machine type{'s' * (count != 1)} may run it", *left_out),
    )


def _row(candidate: EligibleMachine) -> tuple[str, ...]:
    return (
        candidate.machine,
        show_value(candidate.chip_count or None),
        show_value(candidate.chip),
        show_value(candidate.memory_bytes, BYTES),
        candidate.network,
        show_value(candidate.on_demand_usd_per_hour, PRICE_PER_HOUR),
        show_value(candidate.spot_usd_per_hour, PRICE_PER_HOUR),
        show_value(candidate.region),
        "yes" if candidate.recommended else "",
    )


def _names(machines: tuple[str, ...]) -> str:
    shown = ", ".join(machines[:3])
    return shown if len(machines) <= 3 else f"{shown} and {len(machines) - 3} more"


def _nothing(answer: CheckResult) -> Infeasible:
    largest = max(answer.left_out, key=lambda group: len(group.machines))
    binding, _, what = largest.reason.partition(": ")
    return Infeasible(
        binding=binding,
        what=f"no eligible machine type; {len(largest.machines)} are excluded because: {what}",
        fix=f"relax {binding} in the workload file",
    )
