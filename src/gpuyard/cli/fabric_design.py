"""`gpuyard fabric design [FILE]`."""

from __future__ import annotations

import argparse
import re
import typing
from dataclasses import replace
from pathlib import Path

from gpuyard.app.fabric import demand_of_file, design_fabric
from gpuyard.catalog import SwitchOs, load_catalog
from gpuyard.cli.exits import EXIT_DONE, EXIT_INFEASIBLE
from gpuyard.cli.options import add_catalog, add_json, catalog_layers, quantity, whole
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Demand, Fabric, ProviderFabric, Tenant, demand_for, to_json
from gpuyard.fabric.demand import Addressing, Balancing, Purpose, Shape, Tenancy
from gpuyard.home import write_whole
from gpuyard.report import Column, Table, print_json, print_table, print_text
from gpuyard.report.fabric import facts_table
from gpuyard.units import BITS_PER_S, LENGTH

__all__ = ["add_arguments", "run"]

NIC_BITS_PER_S = 400e9  # of H100, H200 and B200 systems: one NIC a GPU


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action's arguments."""
    parser.epilog = (
        "examples:\n"
        "  gpuyard fabric design --gpus 1024 --switch qfx5240-64od -o fabric.json\n"
        "  gpuyard fabric design --gpus 512 --machine dgx-h100 --os cumulus\n"
        "  gpuyard fabric design examples/pretraining-onprem.yaml --option 1\n"
        "  gpuyard fabric design demand.yaml"
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE",
        help="a demand (YAML), a workload, a saved plan or a saved fabric; flags go over it",
    )  # fmt: skip
    _add_size(parser)
    _add_choice(parser)
    parser.add_argument("--option", type=int, default=1, metavar="N", help="which option of the plan (default 1)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="save the fabric as JSON")
    add_catalog(parser)
    add_json(parser)


def _add_size(parser: argparse.ArgumentParser) -> None:
    """How many, and how fast."""
    parser.add_argument("--gpus", type=whole, metavar="N", help="GPUs in all")
    parser.add_argument("--servers", type=whole, metavar="N", help="servers in all, instead of --gpus")
    parser.add_argument("--grow-to", type=whole, metavar="N", help="GPUs later, without moving a cable")
    parser.add_argument("--machine", metavar="NAME", help="a machine of the catalog: its GPUs, rails and NICs")
    parser.add_argument("--gpus-per-server", type=whole, metavar="N", help="default 8")
    parser.add_argument("--rails", type=whole, metavar="N", help="NICs of a server, default 8")
    parser.add_argument("--nic", type=quantity(BITS_PER_S), metavar="SPEED", help="speed of a NIC, default 400Gbps")
    parser.add_argument("--planes", type=whole, metavar="N", help="parallel networks, default 1")
    parser.add_argument("--oversubscription", type=float, metavar="R", help="default 1: non-blocking")
    parser.add_argument("--min-spines", type=whole, metavar="N", help="default 4; 1 switches the policy off")
    parser.add_argument("--shape", choices=typing.get_args(Shape), help="default auto")
    parser.add_argument("--purpose", choices=typing.get_args(Purpose), help="default backend")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Which switches, and how they are set."""
    parser.add_argument("--switch", "--leaf", dest="leaf", metavar="NAME", help="the leaf; chosen if not given")
    parser.add_argument("--spine", metavar="NAME", help="the spine; chosen if not given")
    parser.add_argument("--core", metavar="NAME", help="the core switch of three tiers")
    parser.add_argument("--os", choices=typing.get_args(SwitchOs), help="the switch OS")
    parser.add_argument("--addressing", choices=typing.get_args(Addressing), help="default ipv4")
    parser.add_argument("--balancing", choices=typing.get_args(Balancing), help="default flowlet")
    parser.add_argument("--tenancy", choices=typing.get_args(Tenancy), help="default none, server with --tenant")
    parser.add_argument(
        "--tenant", action="append", default=[], type=_tenant, metavar="NAME=FIRST-LAST",
        help="a tenant and its servers, counted from 1; rails after a colon: a=1-8:0,1 (repeat)",
    )  # fmt: skip
    for tier, ends in (("server", "server and leaf"), ("spine", "leaf and spine"), ("core", "spine and core")):
        parser.add_argument(
            f"--{tier}-cable", type=quantity(LENGTH), metavar="LENGTH", help=f"the longest between {ends}"
        )


def _tenant(text: str) -> Tenant:
    """The tenant that `name=1-8` means."""
    match = re.fullmatch(r"([^=\s]+)=(\d+)(?:-(\d+))?(?::([\d,]+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is not a tenant; write it like blue=1-8')
    first, last = int(match[2]), int(match[3] or match[2])
    rails = tuple(int(rail) for rail in match[4].split(",") if rail) if match[4] else ()
    return Tenant(name=match[1], first_server=first, server_count=max(0, last - first + 1), rails=rails)


def run(arguments: argparse.Namespace) -> int:
    """Designs; prints the fabric, or what makes it infeasible."""
    layers = catalog_layers(arguments)
    demand = _demand(arguments)
    found = demand if isinstance(demand, Infeasible) else design_fabric(demand, layers)
    if isinstance(found, Infeasible):
        print_json({"infeasible": found}) if arguments.json else print_text(str(found))
        return EXIT_INFEASIBLE
    if isinstance(found, ProviderFabric):
        print_json({"provider": found}) if arguments.json else print_table(_provider(found))
        return EXIT_DONE
    text = to_json(found)
    if arguments.output:
        write_whole(arguments.output, text)
    if arguments.json:
        print_text(text)
    else:
        _print(found, arguments.output)
    return EXIT_DONE


def _demand(arguments: argparse.Namespace) -> Demand | Infeasible:
    """The demand of the file, or of the flags alone; flags go over the file."""
    if arguments.file is not None:
        demand = demand_of_file(arguments.file, catalog_layers(arguments), arguments.option)
        if isinstance(demand, Infeasible):
            return demand
    elif arguments.machine:
        demand = demand_for(load_catalog(catalog_layers(arguments)).machine(arguments.machine), 1)
    else:
        demand = Demand(server_count=1, nic_bits_per_s=NIC_BITS_PER_S)
    if arguments.file is None and arguments.gpus is None and arguments.servers is None:
        raise InputError.one("gpuyard fabric design", "for how many GPUs?", "add --gpus N, --servers N, or a file")
    return _counted(_with_flags(demand, arguments), arguments)


def _with_flags(demand: Demand, arguments: argparse.Namespace) -> Demand:
    """The demand with the flags that were given."""
    flags = {
        "gpus_per_server": arguments.gpus_per_server, "rails": arguments.rails, "nic_bits_per_s": arguments.nic,
        "planes": arguments.planes, "oversubscription_ratio": arguments.oversubscription,
        "min_spines": arguments.min_spines, "shape": arguments.shape, "purpose": arguments.purpose,
        "leaf": arguments.leaf, "spine": arguments.spine, "core": arguments.core, "os": arguments.os,
        "addressing": arguments.addressing, "balancing": arguments.balancing, "tenancy": arguments.tenancy,
    }  # fmt: skip
    cables = {"server_m": arguments.server_cable, "spine_m": arguments.spine_cable, "core_m": arguments.core_cable}
    demand = replace(demand, **{name: value for name, value in flags.items() if value is not None})
    demand = replace(
        demand,
        cables=replace(demand.cables, **{name: value for name, value in cables.items() if value is not None}),
    )
    if arguments.tenant:
        tenancy: Tenancy = arguments.tenancy or (
            "gpu" if any(tenant.rails for tenant in arguments.tenant) else "server"
        )
        demand = replace(demand, tenants=tuple(arguments.tenant), tenancy=tenancy)
    return demand


def _counted(demand: Demand, arguments: argparse.Namespace) -> Demand:
    """The demand for the GPUs or servers that were asked for."""
    per_server = demand.gpus_per_server
    for name, gpus in (("--gpus", arguments.gpus), ("--grow-to", arguments.grow_to)):
        if gpus is not None and gpus % per_server:
            nearest = -(-gpus // per_server) * per_server
            raise InputError.one(name, f"{gpus} GPUs do not fill servers of {per_server}", f"use {nearest}")
    if arguments.gpus is not None:
        demand = replace(demand, server_count=arguments.gpus // per_server)
    elif arguments.servers is not None:
        demand = replace(demand, server_count=arguments.servers)
    return replace(demand, grow_to_count=arguments.grow_to // per_server) if arguments.grow_to is not None else demand


def _print(fabric: Fabric, output: Path | None) -> None:
    """The fabric for a reader."""
    print_table(facts_table(fabric))
    for line in (*fabric.reasons, *fabric.limits, *fabric.lossless.notes):
        print_text(f"- {line}")
    if output:
        print_text(
            f"\nwrote {output}\nnext: `gpuyard fabric verify {output}`, `gpuyard fabric render {output} -o configs`"
        )
    else:
        print_text("\n`-o fabric.json` saves it for verify, render and draw")


def _provider(given: ProviderFabric) -> Table:
    """A rented machine's network: whose part is what."""
    rows = [("given", line) for line in given.given] + [("ours", line) for line in given.ours]
    note = f"{given.machine}: the provider's own fabric, {given.transport}; there is nothing to design"
    return Table(columns=(Column(heading="whose"), Column(heading="what")), rows=tuple(rows), notes=(note,))
