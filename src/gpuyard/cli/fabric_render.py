"""`gpuyard fabric render FILE` and `gpuyard fabric draw FILE`."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from gpuyard.app.fabric import (
    export_files,
    read_cabling,
    read_fabric,
    read_site,
    render_files,
    verify_cabling,
    with_os,
)
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.exports.export_list import EXPORTS
from gpuyard.fabric.render.switch_os_list import os_names
from gpuyard.home import write_atomic
from gpuyard.report.fabric_page import fabric_page, topology_page
from gpuyard.report.fabric_svg import fabric_svg, topology_svg
from gpuyard.report.terminal import print_json, print_progress, print_result, print_text


def add_render(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `render`."""
    parser.epilog = "example:\n  gpuyard fabric render fabric.json --os junos -o configs"
    add_option(parser, "FILE", "a fabric written by `gpuyard fabric design -o`")
    add_option(parser, "--os", "switch OS, if other than designed", choices=os_names())
    add_option(
        parser, "--site FILE", "management network, users, NTP, syslog and gNMI of the switches"
    )
    add_option(parser, "-o, --output DIR", "output folder", required=True)
    add_catalog(parser)
    add_json(parser)


def run_render(arguments: argparse.Namespace) -> int:
    """Write the files."""
    catalog = catalog_of(arguments)
    fabric = read_fabric(arguments.file)
    rendered = with_os(fabric, arguments.os, catalog) if arguments.os else fabric
    if isinstance(rendered, Infeasible):
        print_result({"infeasible": rendered}, str(rendered), as_json=arguments.json)
        return EXIT_INFEASIBLE
    site = read_site(arguments.site, rendered) if arguments.site else None
    written = render_files(rendered, arguments.output, catalog, print_progress, site)
    if arguments.json:
        print_json({"folder": str(arguments.output), "files": written})
        return EXIT_OK
    folders = Counter(path.partition("/")[0] if "/" in path else path for path in written)
    for name, count in folders.items():
        print_text(
            f"{arguments.output / name}"
            + (f"/  {count} files" if count > 1 or name not in written else "")
        )
    print_text(f"wrote {len(written)} files")
    return EXIT_OK


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `export`."""
    parser.epilog = (
        "netbox: CSV files for its import, numbered in order. ansible: inventory, Nornir's too."
        "\nnetlab, containerlab: topologies. gnmic: subscriptions. prometheus: scraping and alerts."
        "\nexample:\n  gpuyard fabric export fabric.json --format netbox --site site.yaml -o out"
    )
    add_option(parser, "FILE", "a fabric written by `gpuyard fabric design -o`")
    add_option(parser, "--format", "the tool", choices=tuple(EXPORTS), required=True)
    add_option(parser, "--site FILE", "management network, for addresses and users")
    add_option(parser, "-o, --output DIR", "output folder", required=True)
    add_catalog(parser)
    add_json(parser)


def run_export(arguments: argparse.Namespace) -> int:
    """Write the files."""
    fabric = read_fabric(arguments.file)
    site = read_site(arguments.site, fabric) if arguments.site else None
    catalog = catalog_of(arguments)
    written = export_files(fabric, arguments.format, arguments.output, catalog, site)
    if arguments.json:
        print_json({"folder": str(arguments.output), "files": written})
    else:
        for path in written[:12]:
            print_text(str(arguments.output / path))
        print_text(f"wrote {len(written)} files")
    return EXIT_OK


def add_draw(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `draw`."""
    parser.epilog = "example:\n  gpuyard fabric draw fabric.json -o fabric.html"
    add_option(parser, "FILE", "a saved fabric or topology, or a CSV of cables")
    add_option(parser, "-o, --output FILE", "output file, .svg or .html (default: FILE.svg)")
    add_option(parser, "--no-verify", "do not verify or show findings")
    add_option(parser, "--speed SPEED", "default speed of links whose speed is unknown")
    add_catalog(parser)
    add_json(parser)


def run_draw(arguments: argparse.Namespace) -> int:
    """Write the drawing."""
    output: Path = arguments.output or arguments.file.with_suffix(".svg")
    if output.suffix not in (".svg", ".html"):
        raise InputError.one(
            "--output", f'"{output}" is neither an image nor a page', "end it in .svg or .html"
        )
    subject = read_cabling(arguments.file, arguments.speed)
    name = arguments.file.stem
    if output.suffix == ".svg":
        text = fabric_svg(subject) if isinstance(subject, Fabric) else topology_svg(subject, name)
    else:
        catalog = catalog_of(arguments)
        verification = (
            None if arguments.no_verify else verify_cabling(subject, catalog, print_progress)
        )
        page = (
            fabric_page(subject, verification, name)
            if isinstance(subject, Fabric)
            else topology_page(subject, verification, name)
        )
        text = page
    write_atomic(output, text)
    print_result({"file": str(output)}, f"wrote {output}", as_json=arguments.json)
    return EXIT_OK
