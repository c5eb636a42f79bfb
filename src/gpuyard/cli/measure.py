"""`gpuyard measure`."""

from __future__ import annotations

import argparse

from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import EXIT_OK, InputError
from gpuyard.report.measure import fits_table, rates_table
from gpuyard.report.terminal import print_json, print_status, print_table, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "example:\n  gpuyard measure --home .gpuyard\na quiet machine gives the best profile"
    )
    add_home(parser)
    parser.add_argument(
        "--trainer",
        action="append",
        metavar="NAME",
        help="only this trainer (repeatable; default: all installed)",
    )
    add_option(parser, "--quick", "fewer shapes: a rougher profile, sooner")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Benchmark, save the profile and print it."""
    from gpuyard.app.measure import measure_machine, save_profile, trainers_here

    known = trainers_here()
    for name in arguments.trainer or ():
        if name not in known:
            raise InputError.one(
                "--trainer", f'"{name}" cannot be tried here', f"use {', '.join(known)}"
            )
    home = home_of(arguments)
    home.check_writable()
    profile = measure_machine(
        home.path, arguments.trainer, quick=arguments.quick, on_progress=print_status
    )
    path = save_profile(profile, home)
    if arguments.json:
        print_json(profile)
    else:
        print_table(rates_table(profile))
        print_table(fits_table(profile))
        print_text(f"wrote {path}")
    return EXIT_OK
