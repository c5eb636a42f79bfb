"""`gpuyard calibrate FILE...`, `gpuyard calibrate --run RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.app.calibrate_files import (
    FORMATS,
    MOST_BYTES,
    CalibrationInput,
    calibrate_files,
    document_text,
)
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.home import write_atomic
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.run_columns import COLUMNS
from gpuyard.report.terminal import print_json, print_text
from gpuyard.units import DURATION, RATIO, show

SERVING = ("version", "weights")  # what a vLLM benchmark leaves open, besides COLUMNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "one to three measured points are enough. Formats: "
        + ", ".join(item.name for item in FORMATS)
        + ".\nA table of steps is a CSV with these columns:\n "
        " model,chip,n_chips,precision,seq_len,global_batch,tp,pp,cp,micro_batch,recompute,"
        "zero_or_fsdp,step_time_s\nthen:"
        " gpuyard plan workload.yaml --profile my-stack.yaml\na log that leaves the chip open:"
        " gpuyard calibrate train.log --set chip=h100-sxm\noutput of nccl-tests writes constants"
        " for gpuyard accuracy collectives --constants\nwith --run the measured step of a run"
        " here is folded into the profile of this machine (gpuyard measure)"
    )
    add_option(parser, "files FILE*", "your measurements", type=Path)
    add_option(parser, "--run RUN", "a local run instead: run id, unique id prefix, or `last`")
    add_home(parser)
    add_option(parser, "--profile NAME", "base profile", default="megatron-bridge-26.06")
    add_option(parser, "--set KEY=VALUE...", "a column that a log leaves open")
    add_option(parser, "--network TEXT", "network of nccl-tests: InfiniBand 8x400 Gb/s", default="")
    add_option(parser, "--output PATH", "output file", default=Path("my-stack.yaml"))
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit the constants to the measurements and write the profile."""
    if bool(arguments.files) == (arguments.run is not None):
        raise InputError.one(
            "gpuyard calibrate", "give either FILE or --run", "gpuyard calibrate --run last"
        )
    return _by_run(arguments) if arguments.run is not None else _by_files(arguments)


def _by_run(arguments: argparse.Namespace) -> int:
    from gpuyard.app.calibrate import add_run_to_profile  # needs gpuyard[run]

    update = add_run_to_profile(home_of(arguments), arguments.run)
    if arguments.json:
        print_json(update)
    else:
        before, after = update.before, update.after
        print_text(
            f"run {update.run}: {update.trainer}, {show(before.measured, DURATION)} measured"
            f" per step\npredicted before: {show(before.predicted, DURATION)}"
            f" ({before.error_ratio:+.0%}); now: {show(after.predicted, DURATION)}"
            f" ({after.error_ratio:+.0%})\nmean held-out error: {update.error_before_ratio:.0%}"
            f" before, {update.error_after_ratio:.0%} now\nwrote {update.file}"
        )
    return 0


def _by_files(arguments: argparse.Namespace) -> int:
    result = calibrate_files(
        CalibrationInput(
            paths=tuple(arguments.files),
            texts=tuple(read_text(path, MOST_BYTES) for path in arguments.files),
            name=arguments.output.stem,
            base=find_profile(arguments.profile),
            catalog=catalog_of(arguments),
            settings=dict(_setting(text) for text in arguments.set),
            network=arguments.network,
        )
    )
    write_atomic(arguments.output, document_text(result))
    if arguments.json:
        interval = {"low_ratio": result.low_ratio, "high_ratio": result.high_ratio}
        print_json(
            {
                "format": result.format,
                "file": str(arguments.output),
                "interval": interval,
                **result.data,
            }
        )
    else:
        low = show(1.0 - 1.0 / (1.0 + result.low_ratio), RATIO)
        high = show(result.high_ratio, RATIO)
        print_text(
            "\n".join(
                (
                    f"wrote {arguments.output} from a {result.format}",
                    *result.lines,
                    f"90 % interval of further predictions: −{low} to +{high}",
                )
            )
        )
    return 0


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or key not in (*COLUMNS, *SERVING):
        raise InputError.one(
            f"--set {text}", "not a column of a table of runs", "write KEY=VALUE, such as tp=4"
        )
    return key, value
