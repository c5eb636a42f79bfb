"""The option that names the state directory, apart from the others: most commands keep no state."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuyard.home import Home

__all__ = ["add_home", "home_of"]


def add_home(parser: argparse.ArgumentParser) -> None:
    """`--home PATH`."""
    parser.add_argument(
        "--home", type=Path, metavar="PATH", help="state directory (default: .gpuyard, beside FILE or here)"
    )


def home_of(arguments: argparse.Namespace) -> Home:
    """The state directory: as named, or beside the workload file, or here."""
    if arguments.home is not None:
        return Home(path=arguments.home)
    file: Path | None = getattr(arguments, "file", None)
    return Home.beside(file if file is not None else Path("workload"))
