"""`gpuyard plan FILE`."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Protocol, cast

from gpuyard.app.plan import plan_file
from gpuyard.app.serving import simulate_option
from gpuyard.cli.exits import EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.errors import Infeasible, InputError
from gpuyard.home import write_whole
from gpuyard.plan import Plan
from gpuyard.plan.shortlist import Networks
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.plan import explain_option, option_section, plan_page, plan_table
from gpuyard.report.serving import run_sections

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard plan examples/pretraining.yaml --top 5\n"
        "  gpuyard plan examples/pretraining.yaml --explain 1 --html plan.html\n"
        "  gpuyard plan examples/inference.yaml --explain 1"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a workload file; `gpuyard init` writes one")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="how many options to show (default 10)")
    parser.add_argument(
        "--explain", type=int, metavar="N", help="show option N in full: time, memory, bills, platforms"
    )
    parser.add_argument("--html", type=Path, metavar="PATH", help="write a page with the Pareto plot and the breakdown")
    parser.add_argument(
        "--profile", default="", metavar="NAME", help="software of training: a name or a calibrated file"
    )
    parser.add_argument(
        "--network",
        choices=("closed-form", "simulated"),
        default="closed-form",
        help="simulated: time the first options again with flows over their own fabric (training)",
    )
    add_catalog(parser)
    add_json(parser)


class _Networks(Protocol):
    """What the module of simulated networks offers."""

    def planned_networks(self, layers: tuple[Path, ...]) -> Networks: ...


def _networks(arguments: argparse.Namespace) -> Networks | None:
    """The networks of options, loaded only when they are asked for; None for the closed forms."""
    if arguments.network == "closed-form":
        return None
    module = cast(_Networks, importlib.import_module("gpuyard.app.planned_networks"))
    return module.planned_networks(catalog_layers(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan, or what makes it infeasible."""
    if arguments.top < 1:
        raise InputError.one("--top", f"{arguments.top} is below 1", "write 1 or more")
    found = plan_file(arguments.file, catalog_layers(arguments), arguments.profile, _networks(arguments))
    if isinstance(found, Infeasible):
        print_json({"infeasible": found}) if arguments.json else print_text(str(found))
        return EXIT_INFEASIBLE
    if arguments.explain is not None and not 1 <= arguments.explain <= len(found.options):
        raise InputError.one("--explain", f"there is no option {arguments.explain}", f"use 1 to {len(found.options)}")
    if arguments.html:
        write_whole(arguments.html, plan_page(found, arguments.top, _pictures(found, arguments)))
    if arguments.json:
        print_json(found)
    else:
        _print(found, arguments)
    return 0


def _pictures(plan: Plan, arguments: argparse.Namespace) -> list[str]:
    """The option that is explained, or the first: in full, and under load for services that write tokens."""
    number = arguments.explain or 1
    chosen = plan.options[number - 1]
    if chosen.service is None or chosen.service.tpot is None:
        return []
    run = simulate_option(arguments.file, chosen, catalog_layers(arguments))
    return [option_section(plan, number), *([] if isinstance(run, Infeasible) else run_sections(run))]


def _print(plan: Plan, arguments: argparse.Namespace) -> None:
    """The table, or one option in full."""
    if arguments.explain is None:
        print_table(plan_table(plan, arguments.top))
        print_text("`--explain N` shows one in full, `--html PATH` draws them all")
    else:
        for table in explain_option(plan, arguments.explain):
            print_table(table)
    if arguments.html:
        print_text(f"wrote {arguments.html}")
