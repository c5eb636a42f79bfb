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
        "state directory (default: .gpuyard next to FILE, else in the current folder)",
    )


def home_of(arguments: argparse.Namespace) -> Home:
    """The state directory: `--home`, else next to the workload file, else in the current folder."""
    if arguments.home is not None:
        return Home(path=arguments.home)
    file: Path | None = getattr(arguments, "file", None)
    return Home.for_workload(file if file is not None else Path("workload"))
