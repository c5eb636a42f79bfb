"""`gpuyard simulate step FILE`."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path

from gpuyard.app.step import StepAsked, simulate_planned_step
from gpuyard.cli.exits import EXIT_DONE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, whole
from gpuyard.cli.simulate_results import refuse
from gpuyard.document import plain
from gpuyard.errors import Infeasible
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.simulation_step import phases_table, step_page, step_table
from gpuyard.simulate.step import Slow, trace_json

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard simulate step examples/pretraining-onprem.yaml\n"
        "  gpuyard simulate step examples/pretraining.yaml --option 2 --html step.html --trace step.json\n"
        "  gpuyard simulate step examples/pretraining-onprem.yaml --fabric fabric.json --balancing ecmp"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a workload file that trains")
    parser.add_argument("--option", type=whole, default=1, metavar="N", help="which option of its plan (default 1)")
    parser.add_argument("--profile", default="", metavar="NAME", help="software of training, as of `gpuyard plan`")
    parser.add_argument("--fabric", type=Path, metavar="FILE", help="a saved fabric; default: designed for the option")
    parser.add_argument("--balancing", choices=("ecmp", "spray", "adaptive"), help="default: as designed")
    parser.add_argument(
        "--slow", action="append", default=[], type=_slow, metavar="STAGE=RATIO",
        help="a pipeline stage, counted from 1, whose slowest chip takes so many times as long (repeat)",
    )  # fmt: skip
    parser.add_argument("--html", type=Path, metavar="PATH", help="write a page with the timeline")
    parser.add_argument("--trace", type=Path, metavar="PATH", help="write a timeline for Perfetto or chrome://tracing")
    add_catalog(parser)
    add_json(parser)


def _slow(text: str) -> Slow:
    """A stage and how slow it is."""
    match = re.fullmatch(r"([1-9]\d*)=(\d+(?:\.\d+)?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is no slow stage; write it like 2=1.2')
    return Slow(stage=int(match[1]) - 1, ratio=float(match[2]))


def run(arguments: argparse.Namespace) -> int:
    """Simulates the step; prints its parts beside the closed form."""
    asked = StepAsked(
        option=arguments.option, fabric=arguments.fabric, balancing=arguments.balancing, profile=arguments.profile,
        slow=tuple(arguments.slow),
    )  # fmt: skip
    found = simulate_planned_step(arguments.file, asked, catalog_layers(arguments))
    if isinstance(found, Infeasible):
        return refuse(found, arguments)
    if arguments.html:
        write_whole(arguments.html, step_page(found))
    if arguments.trace:
        write_whole(arguments.trace, trace_json(found.timeline))
    if arguments.json:  # without the events, which --trace writes
        names = [field.name for field in fields(found) if field.name != "timeline"]
        print_json({name: plain(getattr(found, name)) for name in names})
        return EXIT_DONE
    print_table(step_table(found))
    if found.phases:
        print_table(phases_table(found))
    for path in (arguments.html, arguments.trace):
        if path:
            print_text(f"wrote {path}")
    return EXIT_DONE
