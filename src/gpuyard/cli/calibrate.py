"""`gpuyard calibrate FILE.csv`, `gpuyard calibrate --run RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from gpuyard.app.accuracy import calibrated_profile
from gpuyard.app.calibrate import fold_run
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.document import plain
from gpuyard.errors import InputError
from gpuyard.home import Home, write_whole
from gpuyard.perf.profiles import find_profile
from gpuyard.report import print_json, print_text
from gpuyard.units import DURATION, RATIO, show

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "one to three measured steps are enough; a CSV with these columns:\n"
        "  model,chip,n_chips,precision,seq_len,global_batch,tp,pp,cp,micro_batch,recompute,zero_or_fsdp,step_time_s\n"
        "then: gpuyard plan workload.yaml --profile my-stack.yaml\n"
        "with --run the measured step of a run here is folded into the profile of this machine (gpuyard measure)"
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE.csv", help="your measured steps")
    parser.add_argument("--run", metavar="RUN", help="a run here instead: its id, the beginning of one, or last")
    parser.add_argument(
        "--home", type=Path, default=Path(".gpuyard"), metavar="PATH", help="state directory of the run (.gpuyard)"
    )
    parser.add_argument("--profile", default="megatron-bridge-26.06", metavar="NAME", help="the profile to start from")
    parser.add_argument("--output", type=Path, default=Path("my-stack.yaml"), metavar="PATH", help="where to write it")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fits the constants to what was measured, and writes the profile."""
    if (arguments.file is None) == (arguments.run is None):
        raise InputError.one("gpuyard calibrate", "name one of FILE.csv and --run", "gpuyard calibrate --run last")
    return _by_run(arguments) if arguments.run is not None else _by_file(arguments)


def _by_run(arguments: argparse.Namespace) -> int:
    """A run of this machine becomes a probe of its profile."""
    found = fold_run(Home(path=arguments.home), arguments.run)
    if arguments.json:
        print_json(found)
    else:
        before, after = found.before, found.after
        print_text(
            f"run {found.run}: {found.trainer}, {show(before.measured, DURATION)} a step measured\n"
            f"predicted before: {show(before.predicted, DURATION)} ({before.error_ratio:+.0%}); "
            f"now: {show(after.predicted, DURATION)} ({after.error_ratio:+.0%})\n"
            f"mean left-out error: {found.error_before_ratio:.0%} before, {found.error_after_ratio:.0%} now\n"
            f"wrote {found.file}"
        )
    return 0


def _by_file(arguments: argparse.Namespace) -> int:
    """Measured steps of other machines become a profile's scalar."""
    base = find_profile(arguments.profile)
    profile, scored = calibrated_profile(arguments.file, base, arguments.output.stem, catalog_layers(arguments))
    fields = plain(profile)
    assert isinstance(fields, dict)
    name = fields.pop("name")
    text = yaml.safe_dump({"profiles": {name: fields}}, sort_keys=False, allow_unicode=True)
    write_whole(arguments.output, text)
    if arguments.json:
        print_json({"profile": profile, "file": str(arguments.output), "errors": scored.errors})
    else:
        left, rows = show(round(scored.errors.mean_abs_error or 0.0, 6), RATIO), scored.errors.rows
        print_text(
            f"wrote {arguments.output}: scalar {profile.scalar:.3f}, from {rows} measured step{'s' * (rows > 1)}\n"
            f"mean error on them after calibration: {left}"
        )
    return 0
