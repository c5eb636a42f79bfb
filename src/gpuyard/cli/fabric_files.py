"""`gpuyard fabric render FILE` and `gpuyard fabric draw FILE`."""

from __future__ import annotations

import argparse
import typing
from collections import Counter
from pathlib import Path

from gpuyard.app.fabric import read_cabling, read_fabric, render_files, verify_cabling, with_os
from gpuyard.catalog import SwitchOs
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Fabric
from gpuyard.home import write_whole
from gpuyard.report import print_json, print_progress, print_text
from gpuyard.report.fabric_page import fabric_page, topology_page
from gpuyard.report.fabric_svg import fabric_svg, topology_svg
from gpuyard.units import BITS_PER_S

__all__ = ["add_draw", "add_render", "run_draw", "run_render"]


def add_render(parser: argparse.ArgumentParser) -> None:
    """The arguments of `render`."""
    parser.epilog = "example:\n  gpuyard fabric render fabric.json --os junos -o configs"
    parser.add_argument("file", type=Path, metavar="FILE", help="what `gpuyard fabric design -o` wrote")
    parser.add_argument("--os", choices=typing.get_args(SwitchOs), help="another switch OS than it was designed for")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write the files")
    add_catalog(parser)
    add_json(parser)


def run_render(arguments: argparse.Namespace) -> int:
    """Writes the files."""
    layers = catalog_layers(arguments)
    fabric = read_fabric(arguments.file)
    found = with_os(fabric, arguments.os, layers) if arguments.os else fabric
    if isinstance(found, Infeasible):
        print_json({"infeasible": found}) if arguments.json else print_text(str(found))
        return EXIT_INFEASIBLE
    written = render_files(found, arguments.output, layers, print_progress)
    if arguments.json:
        print_json({"folder": str(arguments.output), "files": written})
        return EXIT_DONE
    folders = Counter(path.partition("/")[0] if "/" in path else path for path in written)
    for name, count in folders.items():
        print_text(f"{arguments.output / name}" + (f"/  {count} files" if count > 1 or name not in written else ""))
    print_text(f"wrote {len(written)} files")
    return EXIT_DONE


def add_draw(parser: argparse.ArgumentParser) -> None:
    """The arguments of `draw`."""
    parser.epilog = "example:\n  gpuyard fabric draw fabric.json -o fabric.html"
    parser.add_argument("file", type=Path, metavar="FILE", help="a saved fabric or topology, or a CSV of cables")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="ends in .svg or .html; default FILE with .svg"
    )
    parser.add_argument("--no-verify", action="store_true", help="leave the findings out of the page")
    parser.add_argument(
        "--speed", type=quantity(BITS_PER_S), metavar="SPEED", help="of links in a table without speeds"
    )
    add_catalog(parser)
    add_json(parser)


def run_draw(arguments: argparse.Namespace) -> int:
    """Draws."""
    output: Path = arguments.output or arguments.file.with_suffix(".svg")
    if output.suffix not in (".svg", ".html"):
        raise InputError.one("--output", f'"{output}" is neither a picture nor a page', "end it in .svg or .html")
    subject = read_cabling(arguments.file, arguments.speed)
    name = arguments.file.stem
    if output.suffix == ".svg":
        text = fabric_svg(subject) if isinstance(subject, Fabric) else topology_svg(subject, name)
    else:
        layers = catalog_layers(arguments)
        found = None if arguments.no_verify else verify_cabling(subject, layers, print_progress)
        page = fabric_page(subject, found, name) if isinstance(subject, Fabric) else topology_page(subject, found, name)
        text = page
    write_whole(output, text)
    print_json({"file": str(output)}) if arguments.json else print_text(f"wrote {output}")
    return EXIT_DONE
