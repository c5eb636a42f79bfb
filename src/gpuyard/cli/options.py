"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from gpuyard.app.workspace import Workspace, open_workspace
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.home import Home
from gpuyard.units import Dimension, UnitError, parse


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add `--catalog PATH`, repeatable."""
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help=(
            "your own catalog file or folder (repeatable; also $GPUYARD_CATALOG, separated by"
            " colons)"
        ),
    )


def catalog_layers(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """The user's catalog files: the command line's override those of the environment."""
    ambient = os.environ.get("GPUYARD_CATALOG", "")
    return (*(Path(part) for part in ambient.split(":") if part), *arguments.catalog)


def catalog_of(arguments: argparse.Namespace) -> Catalog:
    """The catalog with the user's layers, for commands without a workload file."""
    return load_catalog(catalog_layers(arguments))


def workspace_of(arguments: argparse.Namespace) -> Workspace:
    """The workload file of the command line, its catalog and its state directory."""
    home = getattr(arguments, "home", None)
    return open_workspace(
        arguments.file, catalog_layers(arguments), Home(path=home) if home else None
    )


def whole(text: str) -> int:
    """Parse a positive integer, for argparse."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a positive integer')
    return number


def quantity(dimension: Dimension) -> Callable[[str], float]:
    """Return a parser of quantities such as 400Gbps, for argparse."""

    def read(text: str) -> float:
        try:
            return parse(text, dimension)
        except UnitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
