"""`gpuyard simulate step FILE`."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields

from gpuyard.app.fabric import read_fabric
from gpuyard.app.plan import plan_workload
from gpuyard.app.step import StepSimOptions, check_trains, simulate_training_step
from gpuyard.cli.options import add_catalog, add_json, add_option, workspace_of
from gpuyard.cli.simulate_results import refuse
from gpuyard.document.encode import plain
from gpuyard.errors import EXIT_OK, Infeasible, InputError
from gpuyard.home import write_atomic
from gpuyard.report.simulation_step import phases_table, step_page, step_table
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.simulate.step.timeline import Slow
from gpuyard.simulate.step.trace import trace_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard simulate step examples/pretraining-onprem.yaml\n  gpuyard simulate"
        " step examples/pretraining.yaml --option 2 --html step.html --trace step.json\n  gpuyard"
        " simulate step examples/pretraining-onprem.yaml --fabric fabric.json --load-balancing ecmp"
    )
    add_option(parser, "FILE", "a pretraining or finetuning workload file")
    add_option(parser, "--option N", "option of the plan (default 1)", default=1)
    add_option(
        parser, "--profile NAME", "training software profile, as in `gpuyard plan`", default=""
    )
    add_option(parser, "--fabric FILE", "a saved fabric; default: designed for the option")
    add_option(
        parser, "--load-balancing", "default: as designed", choices=("ecmp", "spray", "adaptive")
    )
    add_option(
        parser,
        "--slow-stage STAGE=RATIO...",
        "pipeline stage, counted from 1, and the slowdown of its slowest chip (repeatable)",
        type=_slow,
    )
    add_option(parser, "--html PATH", "write a page with the timeline")
    add_option(parser, "--trace PATH", "write a timeline for Perfetto or chrome://tracing")
    add_catalog(parser)
    add_json(parser)


def _slow(text: str) -> Slow:
    match = re.fullmatch(r"([1-9]\d*)=(\d+(?:\.\d+)?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is not a slow stage; write it like 2=1.2')
    return Slow(stage=int(match[1]) - 1, ratio=float(match[2]))


def run(arguments: argparse.Namespace) -> int:
    """Simulate the step; print its terms and those of the closed form."""
    workspace = workspace_of(arguments)
    check_trains(workspace)
    plan = plan_workload(workspace, profile=arguments.profile)
    if isinstance(plan, Infeasible):
        return refuse(plan, arguments)
    if not 1 <= arguments.option <= len(plan.options):
        raise InputError.one(
            "--option", f"there is no option {arguments.option}", f"use 1 to {len(plan.options)}"
        )
    options = StepSimOptions(
        balancing=arguments.load_balancing,
        profile=arguments.profile,
        slow=tuple(arguments.slow_stage),
    )
    fabric = read_fabric(arguments.fabric) if arguments.fabric else None
    step = simulate_training_step(workspace, plan.options[arguments.option - 1], fabric, options)
    if arguments.html:
        write_atomic(arguments.html, step_page(step))
    if arguments.trace:
        write_atomic(arguments.trace, trace_json(step.timeline))
    if arguments.json:  # without the events, which --trace writes
        names = [field.name for field in fields(step) if field.name != "timeline"]
        print_json({name: plain(getattr(step, name)) for name in names})
        return EXIT_OK
    print_table(step_table(step))
    if step.phases:
        print_table(phases_table(step))
    for path in (arguments.html, arguments.trace):
        if path:
            print_text(f"wrote {path}")
    return EXIT_OK
