"""`gpuyard plan FILE`."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from gpuyard.app.plan import plan_workload, sweep_counts
from gpuyard.app.serving import simulate_option
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog
from gpuyard.cli.options import add_catalog, add_json, add_option, page_stamp, workspace_of
from gpuyard.document.encode import load_json_file
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible, InputError
from gpuyard.home import write_atomic
from gpuyard.plan.option import Plan
from gpuyard.plan.shortlist import Networks
from gpuyard.report.plan import explain_option, option_section, plan_page, text_notes
from gpuyard.report.plan_age import price_age
from gpuyard.report.plan_lines import plan_text
from gpuyard.report.plan_tables import comparison, scaling_table
from gpuyard.report.recommendation import recommendation
from gpuyard.report.serving import run_sections
from gpuyard.report.terminal import print_json, print_result, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard plan examples/pretraining.yaml --top 5\n"
        "  gpuyard plan examples/pretraining.yaml --explain 1 --html plan.html\n"
        "  gpuyard plan examples/inference.yaml --explain 1\n"
        "  gpuyard plan examples/pretraining.yaml --sweep\n"
        "  gpuyard plan --compare monday.json friday.json"
    )
    add_option(parser, "FILE?", "a workload file; `gpuyard init` writes one")
    parser.add_argument(
        "--compare",
        type=Path,
        nargs=2,
        metavar=("A.json", "B.json"),
        help="compare two plans saved with --json",
    )
    add_option(parser, "--sweep", "show the first machine type at every count, with the knee")
    add_option(parser, "--top N", "how many options to show (default 10)", type=int, default=10)
    add_option(
        parser, "--explain N", "show option N in full: time, memory, bills, platforms", type=int
    )
    add_option(parser, "--html PATH", "write a page with the Pareto plot and the breakdown")
    add_option(
        parser,
        "--profile NAME",
        "training software profile: a name or a calibrated file",
        default="",
    )
    add_option(
        parser,
        "--network",
        "simulated: time the first options with flow simulation on their own fabric (training)",
        choices=("closed-form", "simulated"),
        default="closed-form",
    )
    add_catalog(parser)
    add_json(parser)


def _networks(arguments: argparse.Namespace, catalog: Catalog) -> Networks | None:
    """Simulated networks of the options, imported only when requested; None for closed forms."""
    if arguments.network == "closed-form":
        return None
    from gpuyard.simulate.sites.planned_networks import planned_networks

    return planned_networks(catalog)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan, or what makes it infeasible."""
    if arguments.top < 1:
        raise InputError.one("--top", f"{arguments.top} is below 1", "write 1 or more")
    if arguments.compare is not None:
        return _compare(arguments)
    if arguments.file is None:
        raise InputError.one("FILE", "is missing", "name a workload file, or two plans: --compare")
    workspace = workspace_of(arguments)
    plan = plan_workload(
        workspace,
        profile=arguments.profile,
        networks=_networks(arguments, workspace.catalog),
    )
    if isinstance(plan, Infeasible):
        print_result({"infeasible": plan}, str(plan), as_json=arguments.json)
        return EXIT_INFEASIBLE
    if arguments.explain is not None and not 1 <= arguments.explain <= len(plan.options):
        raise InputError.one(
            "--explain", f"there is no option {arguments.explain}", f"use 1 to {len(plan.options)}"
        )
    if arguments.html:
        write_atomic(
            arguments.html,
            plan_page(plan, arguments.top, _pictures(plan, workspace, arguments), page_stamp()),
        )
    if arguments.sweep:
        machine, points = sweep_counts(workspace, plan)
        print_result(
            {"machine": machine, "points": points},
            scaling_table(machine, points),
            as_json=arguments.json,
        )
    elif arguments.json:
        print_json(plan)
    else:
        _print(plan, arguments, workspace.catalog)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    """Print the recommendations of two saved plans, and their first options side by side."""
    plans = [load_json_file(path, Plan) for path in arguments.compare]
    names = [path.stem for path in arguments.compare]
    table = comparison(names, plans, arguments.top)
    if arguments.json:
        print_json(table)
        return EXIT_OK
    for name, plan in zip(names, plans, strict=True):
        print_text(f"{name}: {recommendation(plan)[0]}")
    print_table(table)
    return EXIT_OK


def _pictures(plan: Plan, workspace: Workspace, arguments: argparse.Namespace) -> list[str]:
    """The explained option, or the first, in full; LLM services also under load."""
    number = arguments.explain or 1
    chosen = plan.options[number - 1]
    if chosen.service is None or chosen.service.tpot is None:
        return []
    run = simulate_option(workspace, chosen)
    return [
        option_section(plan, number),
        *([] if isinstance(run, Infeasible) else run_sections(run)),
    ]


def _print(plan: Plan, arguments: argparse.Namespace, catalog: Catalog) -> None:
    if arguments.explain is None:
        today = datetime.datetime.now(datetime.UTC).date()
        notes = (*price_age(plan, catalog, today), *text_notes(plan))
        print_text(plan_text(plan, arguments.top, notes))
        print_text("use `--explain N` for one option in full, `--html PATH` for plots")
    else:
        for table in explain_option(plan, arguments.explain):
            print_table(table)
    if arguments.html:
        print_text(f"wrote {arguments.html}")
