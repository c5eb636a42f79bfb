"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from gpuyard.units import Dimension, UnitError, parse

__all__ = ["add_catalog", "add_json", "catalog_layers", "quantity", "whole"]


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


def whole(text: str) -> int:
    """A whole number above zero, for argparse."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above zero')
    return number


def quantity(dimension: Dimension) -> Callable[[str], float]:
    """A reader of quantities such as 400Gbps, for argparse."""

    def read(text: str) -> float:
        """The value in SI."""
        try:
            return parse(text, dimension)
        except UnitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
