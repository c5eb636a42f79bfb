"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

__all__ = ["add_catalog", "add_json", "catalog_layers"]


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """`--catalog PATH`, once for each of the user's own catalog files."""
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="your own catalog file or folder over ours (repeat; also $GPUYARD_CATALOG, separated by colons)",
    )


def catalog_layers(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """The user's catalog files: those of the environment below those of the command line."""
    ambient = os.environ.get("GPUYARD_CATALOG", "")
    return (*(Path(part) for part in ambient.split(":") if part), *arguments.catalog)
