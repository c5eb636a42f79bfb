"""`gpuyard fabric rack-plan FILE`."""

from __future__ import annotations

import argparse

from gpuyard.app.fabric import read_fabric
from gpuyard.cli.options import add_catalog, add_json, add_option, catalog_of, quantity
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible
from gpuyard.fabric.physical.rack_plan import rack_plan
from gpuyard.fabric.physical.racks import RackSettings
from gpuyard.home import write_atomic
from gpuyard.report.fabric import listed_findings
from gpuyard.report.rack_files import rack_files, summary
from gpuyard.report.rack_page import order_table, plan_facts
from gpuyard.report.terminal import print_json, print_result, print_table, print_text
from gpuyard.units import POWER

SETTINGS = {
    "units": "rack_units",
    "power_w": "rack_power",
    "racks_per_row": "racks_per_row",
    "server_units": "server_units",
    "row_pitch_m": "row_pitch",
    "slack_m": "slack",
}


def add_rack_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rack-plan`."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard fabric rack-plan fabric.json -o plan\n"
        "  gpuyard fabric rack-plan fabric.json storage.json management.json -o plan\n"
        "  gpuyard fabric rack-plan fabric.json --rack-power 40kW --catalog prices.toml"
    )
    add_option(
        parser,
        "FILE+",
        "fabrics written by `gpuyard fabric design -o`: all networks of the same servers",
    )
    add_option(parser, "-o, --output DIR", "folder for CSV, JSON and an interactive page")
    add_option(parser, "--rack-units N", "height of a rack in units (default 48)")
    add_option(
        parser,
        "--rack-power POWER",
        "limit per rack, such as 40kW (default: none)",
        type=quantity(POWER),
    )
    add_option(parser, "--server-units N", "height of a server (default: of the machine, else 8)")
    add_option(parser, "--racks-per-row N", "racks in a row (default 20)")
    add_option(parser, "--row-pitch LENGTH", "from one row of racks to the next (default 3m)")
    add_option(parser, "--slack LENGTH", "at each end of a cable (default 0.5m)")
    add_catalog(parser)
    add_json(parser)


def run_rack_plan(arguments: argparse.Namespace) -> int:
    """Print the plan, and write its files."""
    given = {field: getattr(arguments, name) for field, name in SETTINGS.items()}
    settings = RackSettings(**{name: value for name, value in given.items() if value is not None})
    plan = rack_plan(
        [read_fabric(path) for path in arguments.file], catalog_of(arguments), settings
    )
    if isinstance(plan, Infeasible):
        print_result({"infeasible": plan}, str(plan), as_json=arguments.json)
        return EXIT_INFEASIBLE
    written: list[str] = []
    if arguments.output:
        for name, text in rack_files(plan, f"Rack plan of {arguments.file[0].stem}"):
            write_atomic(arguments.output / name, text)
            written.append(str(arguments.output / name))
    if arguments.json:
        print_json({**summary(plan), "files": written})
        return EXIT_OK
    print_table(plan_facts(plan))
    print_table(order_table(plan))
    if plan.findings:
        print_table(listed_findings(plan.findings))
    for path in written:
        print_text(f"wrote {path}")
    if not written:
        print_text("\nwrite racks, cables with labels, order and page with `-o plan`")
    return EXIT_OK
