"""`gpuyard diff DIR`."""

from __future__ import annotations

import argparse

from gpuyard.app.apply import ExternalServices, connect, prepare
from gpuyard.app.preflight import FolderDrift, folder_drift
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import EXIT_EXTERNAL_ERROR, EXIT_OK
from gpuyard.report.terminal import print_json, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard diff deploy\n  gpuyard diff deploy --json\n"
        "exit code 0: the cloud has what was rendered; 4: it differs, or could not be read"
    )
    add_option(parser, "DIR", "the rendered folder")
    add_option(
        parser, "--context NAME", "kubectl context; default: the created cluster", default=""
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what the cloud has against what was rendered; nothing is changed."""
    prepared = prepare(arguments.dir, arguments.context)
    world = ExternalServices(endpoint=connect(is_needed=prepared.needs_google))
    drift = folder_drift(prepared, world)
    if arguments.json:
        print_json(drift)
    else:
        _print(drift)
    return EXIT_OK if drift.is_same else EXIT_EXTERNAL_ERROR


def _print(drift: FolderDrift) -> None:
    for step in drift.steps:
        why = f": {step.why}" if step.why else ""
        print_text(f"{step.state:8} {step.file}: {step.what}{why}")
        for row in step.differences:
            print_text(f"           {row.path}: {row.rendered} → {row.live or 'absent'}")
    for item in drift.extra:
        print_text(f"extra    {item.kind} {item.name} in {item.location}")
    same = sum(step.state == "same" for step in drift.steps)
    print_text(f"{same} of {len(drift.steps)} resources are as rendered, {len(drift.extra)} extra")
