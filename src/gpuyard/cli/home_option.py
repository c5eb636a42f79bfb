"""The `--home` option of commands that keep state."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.cli.options import add_option
from gpuyard.home import Home


def add_home(parser: argparse.ArgumentParser) -> None:
    """Add `--home PATH`."""
    add_option(
        parser,
        "--home PATH",
        "state directory (default: $GPUYARD_HOME; else the nearest .gpuyard upward of FILE or of"
        " the current folder; else the one used last)",
    )


def home_of(arguments: argparse.Namespace) -> Home:
    """The state directory: `--home`, else that of the workload file or of the current folder."""
    if arguments.home is not None:
        return Home(path=arguments.home)
    file: Path | None = getattr(arguments, "file", None)
    return Home.for_workload(file) if file is not None else Home.for_folder(Path())
