"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpuyard import __version__
from gpuyard.app.workspace import Workspace, open_workspace
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.home import Home
from gpuyard.units import BITS_PER_S, BYTES, DURATION, LENGTH, Dimension, UnitError, parse


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    add_option(parser, "--json", "print JSON, for scripts")


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add `--catalog PATH`, repeatable."""
    add_option(
        parser,
        "--catalog PATH...",
        "your own catalog file or folder (repeatable; also $GPUYARD_CATALOG, separated by colons)",
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


def page_stamp() -> str:
    """Version and date of a page that is written now."""
    return f"gpuyard {__version__}, {time.strftime('%Y-%m-%d %H:%M %Z')}"


def positive_int(text: str) -> int:
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


# How the value of an option is read, by its metavar; any other is text.
READERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("FILE", "PATH", "DIR", "FOLDER", "CSV", "FILE.csv"), Path),
    "N": positive_int,
    "SPEED": quantity(BITS_PER_S),
    "TIME": quantity(DURATION),
    "SIZE": quantity(BYTES),
    "LENGTH": quantity(LENGTH),
}


def add_option(
    parser: argparse._ActionsContainer,
    spec: str,
    text: str,
    *,
    type: Callable[[str], object] | None = None,  # noqa: A002
    default: object = None,
    choices: Iterable[str] | None = None,
    required: bool = False,
    dest: str | None = None,
) -> None:
    """Add an option or argument as its help shows it.

    `--yes` is a flag, `--out, -o DIR` takes a value, `--region NAME...` is repeatable, `FILE` or
    `run RUN` is an argument, `FILE?` an optional one, `NAME*` any number of them.
    """
    names, _, meta = spec.rpartition(" ") if " " in spec.replace(", ", ",") else (spec, "", "")
    flags = names.split(", ")
    positional = not flags[0].startswith("-")
    if positional and not meta and choices is None:
        meta, flags = flags[0], [flags[0].rstrip("?*+").lower()]
    metavar = meta.rstrip("?*+.")
    settings: dict[str, object] = {"help": text, "default": default}
    if not metavar and choices is None:
        settings |= {"action": "store_true", "default": False}
    else:
        settings |= {"type": type or READERS.get(metavar), "choices": choices}
        settings["metavar"] = metavar or None
    if meta.endswith("..."):
        settings |= {"action": "append", "default": []}
    elif meta[len(metavar) :]:
        settings["nargs"] = meta[len(metavar) :]
    if not positional:
        settings |= {"required": required, "dest": dest}
    parser.add_argument(*flags, **settings)  # type: ignore[arg-type]
