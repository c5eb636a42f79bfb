"""Output of network simulations: tables or JSON, a page, a trace."""

from __future__ import annotations

import argparse

from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible
from gpuyard.home import write_atomic
from gpuyard.report.simulation import headline, links_table, simulation_table, summary_fields
from gpuyard.report.simulation_trace import simulation_trace_json
from gpuyard.report.terminal import (
    print_json,
    print_progress,
    print_result,
    print_table,
    print_text,
)
from gpuyard.simulate.summary import SimulationResult


def refuse(infeasible: Infeasible, arguments: argparse.Namespace) -> int:
    """Print the binding constraint."""
    print_result({"infeasible": infeasible}, str(infeasible), as_json=arguments.json)
    return EXIT_INFEASIBLE


def print_simulation(done: SimulationResult, arguments: argparse.Namespace) -> int:
    """Print a simulation, and write the requested files."""
    print_progress(1, 1)  # clears the line of the progress
    if arguments.html:
        from gpuyard.report.simulation_page import simulation_page  # slow to import

        write_atomic(arguments.html, simulation_page(done))
    if arguments.trace:
        write_atomic(arguments.trace, simulation_trace_json(done))
    if arguments.json:
        print_json(summary_fields(done.summary))
        return EXIT_OK
    print_text(headline(done.summary))
    print_table(simulation_table(done.summary))
    if done.summary.hottest:
        print_table(links_table(done.summary))
    for path in (arguments.html, arguments.trace):
        if path:
            print_text(f"wrote {path}")
    return EXIT_OK
