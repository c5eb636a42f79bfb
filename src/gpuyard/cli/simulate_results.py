"""How simulations of networks end: numbers on the screen or as JSON, a page, a timeline."""

from __future__ import annotations

import argparse
import importlib
from typing import Protocol, cast

from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.errors import Infeasible
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.simulation import headline, links_table, simulation_table, summary_fields
from gpuyard.report.simulation_trace import trace_json
from gpuyard.simulate.summary import Simulation

__all__ = ["refuse", "tell"]


class _Pages(Protocol):
    """What the module of the page offers."""

    def simulation_page(self, done: Simulation) -> str: ...


def refuse(found: Infeasible, arguments: argparse.Namespace) -> int:
    """Says what binds."""
    print_json({"infeasible": found}) if arguments.json else print_text(str(found))
    return EXIT_INFEASIBLE


def tell(done: Simulation, arguments: argparse.Namespace) -> int:
    """Prints a simulation, and writes what was asked for."""
    if arguments.html:
        pages = cast(_Pages, importlib.import_module("gpuyard.report.simulation_page"))  # drawing takes long to load
        write_whole(arguments.html, pages.simulation_page(done))
    if arguments.trace:
        write_whole(arguments.trace, trace_json(done))
    if arguments.json:
        print_json(summary_fields(done.summary))
        return EXIT_DONE
    print_text(headline(done.summary))
    print_table(simulation_table(done.summary))
    if done.summary.hottest:
        print_table(links_table(done.summary))
    for path in (arguments.html, arguments.trace):
        if path:
            print_text(f"wrote {path}")
    return EXIT_DONE
