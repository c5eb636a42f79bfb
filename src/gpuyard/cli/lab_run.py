"""`gpuyard lab run`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuyard.cli.options import add_json, add_option, quantity
from gpuyard.errors import EXIT_OK
from gpuyard.report.lab import bandwidth_table
from gpuyard.report.terminal import print_json, print_status, print_table, print_text
from gpuyard.units import BYTES

if TYPE_CHECKING:
    pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `run`."""
    parser.epilog = (
        "examples:\n  gpuyard lab run --fail spine-1\n  gpuyard lab run --framework jax --fail"
        " spine-2 --silent\n  gpuyard lab run --fail server-3    # the job starts again from its"
        " checkpoint"
    )
    add_option(parser, "--name NAME", "which lab (default lab)", default="lab")
    add_option(
        parser,
        "--framework",
        "training framework (default torch)",
        choices=("torch", "jax"),
        default="torch",
    )
    add_option(parser, "--steps N", "training steps (default 60)", default=60)
    parser.add_argument(
        "--size",
        type=quantity(BYTES),
        action="append",
        metavar="SIZE",
        help="all-reduce size (repeatable; default 16 and 64 MiB)",
    )
    add_option(parser, "--fail DEVICE", "fail a switch or a server during the training")
    add_option(parser, "--silent", "the switch drops all packets while its links stay up")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and train on the lab; print results and predictions."""
    from gpuyard.app.lab_run import LabRun, run_lab  # imports the training packages

    sizes = tuple(int(size) for size in arguments.size) if arguments.size else (16 << 20, 64 << 20)
    options = LabRun(
        name=arguments.name,
        framework=arguments.framework,
        steps=arguments.steps,
        sizes_bytes=sizes,
        fail=arguments.fail,
        silent=arguments.silent,
    )
    ran = run_lab(options, print_status)
    if arguments.json:
        print_json(ran)
        return EXIT_OK
    print_table(bandwidth_table(ran.bandwidth))
    trained = ran.trained
    print_text(
        f"training on {trained.servers_count} servers: {trained.steps} steps of"
        f" {trained.median_step_s * 1e3:.0f} ms, loss {trained.losses[0][1]:.4f} to"
        f" {trained.losses[-1][1]:.4f}"
    )
    if ran.broken:
        for event in ran.broken.trained.happened:
            print_text(
                f"  step {event.step}: {event.what}; longest step"
                f" {event.longest_step_s * 1e3:.0f} ms"
            )
        print_text(
            f"  the same losses to {ran.broken.largest_loss_difference:.1e}; "
            f"a silent neighbour is given up after {ran.broken.detect_s:g} s (BFD)"
        )
    return EXIT_OK
