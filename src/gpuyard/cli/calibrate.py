"""`gpuyard calibrate FILE.csv`, `gpuyard calibrate --run RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from gpuyard.app.accuracy import calibrated_profile
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.document.encode import plain
from gpuyard.errors import InputError
from gpuyard.home import write_atomic
from gpuyard.perf.profiles import find_profile
from gpuyard.report.terminal import print_json, print_text
from gpuyard.units import DURATION, RATIO, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "one to three measured steps are enough; a CSV with these columns:\n "
        " model,chip,n_chips,precision,seq_len,global_batch,tp,pp,cp,micro_batch,recompute,"
        "zero_or_fsdp,step_time_s\nthen:"
        " gpuyard plan workload.yaml --profile my-stack.yaml\nwith --run the measured step of a run"
        " here is folded into the profile of this machine (gpuyard measure)"
    )
    add_option(parser, "file FILE.csv?", "your measured steps")
    add_option(parser, "--run RUN", "a local run instead: run id, unique id prefix, or `last`")
    add_home(parser)
    add_option(parser, "--profile NAME", "base profile", default="megatron-bridge-26.06")
    add_option(parser, "--output PATH", "output file", default=Path("my-stack.yaml"))
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit the constants to the measurements and write the profile."""
    if (arguments.file is None) == (arguments.run is None):
        raise InputError.one(
            "gpuyard calibrate", "give either FILE.csv or --run", "gpuyard calibrate --run last"
        )
    return _by_run(arguments) if arguments.run is not None else _by_file(arguments)


def _by_run(arguments: argparse.Namespace) -> int:
    from gpuyard.app.calibrate import add_run_to_profile  # needs gpuyard[run]

    update = add_run_to_profile(home_of(arguments), arguments.run)
    if arguments.json:
        print_json(update)
    else:
        before, after = update.before, update.after
        print_text(
            f"run {update.run}: {update.trainer}, {show(before.measured, DURATION)} a step"
            f" measured\npredicted before: {show(before.predicted, DURATION)}"
            f" ({before.error_ratio:+.0%}); now: {show(after.predicted, DURATION)}"
            f" ({after.error_ratio:+.0%})\nmean left-out error: {update.error_before_ratio:.0%}"
            f" before, {update.error_after_ratio:.0%} now\nwrote {update.file}"
        )
    return 0


def _by_file(arguments: argparse.Namespace) -> int:
    base = find_profile(arguments.profile)
    profile, scored = calibrated_profile(
        arguments.file, base, arguments.output.stem, catalog_of(arguments)
    )
    fields = plain(profile)
    assert isinstance(fields, dict)
    name = fields.pop("name")
    text = yaml.safe_dump({"profiles": {name: fields}}, sort_keys=False, allow_unicode=True)
    write_atomic(arguments.output, text)
    if arguments.json:
        print_json({"profile": profile, "file": str(arguments.output), "errors": scored.errors})
    else:
        left, rows = show(round(scored.errors.mean_abs_error or 0.0, 6), RATIO), scored.errors.rows
        print_text(
            f"wrote {arguments.output}: scalar {profile.scalar:.3f}, from {rows} measured"
            f" step{'s' * (rows > 1)}\nmean error on them after calibration: {left}"
        )
    return 0
