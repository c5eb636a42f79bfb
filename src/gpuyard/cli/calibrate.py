"""`gpuyard calibrate FILE.csv`."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from gpuyard.app.accuracy import calibrated_profile
from gpuyard.cli.options import add_catalog, add_json, catalog_layers
from gpuyard.document import plain
from gpuyard.perf.profiles import find_profile
from gpuyard.report import print_json, print_text
from gpuyard.units import RATIO, show

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "one to three measured steps are enough; a CSV with these columns:\n"
        "  model,chip,n_chips,precision,seq_len,global_batch,tp,pp,cp,micro_batch,recompute,zero_or_fsdp,step_time_s\n"
        "then: gpuyard plan workload.yaml --profile my-stack.yaml"
    )
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="your measured steps")
    parser.add_argument("--profile", default="megatron-bridge-26.06", metavar="NAME", help="the profile to start from")
    parser.add_argument("--output", type=Path, default=Path("my-stack.yaml"), metavar="PATH", help="where to write it")
    add_catalog(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fits the scalar and writes the profile."""
    base = find_profile(arguments.profile)
    profile, scored = calibrated_profile(arguments.file, base, arguments.output.stem, catalog_layers(arguments))
    fields = plain(profile)
    assert isinstance(fields, dict)
    name = fields.pop("name")
    text = yaml.safe_dump({"profiles": {name: fields}}, sort_keys=False, allow_unicode=True)
    arguments.output.write_text(text, encoding="utf-8")
    if arguments.json:
        print_json({"profile": profile, "file": str(arguments.output), "errors": scored.errors})
    else:
        left = show(scored.errors.mean_abs_error or 0.0, RATIO)
        print_text(
            f"wrote {arguments.output}: scalar {profile.scalar:.3f}, from {scored.errors.rows} measured steps\n"
            f"mean error on them after calibration: {left}"
        )
    return 0
