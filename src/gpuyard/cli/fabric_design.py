"""`gpuyard fabric design [FILE]`."""

from __future__ import annotations

import argparse
import re
import typing
from dataclasses import replace
from pathlib import Path

from gpuyard.app.fabric import FabricRequest, design_fabric, read_request
from gpuyard.cli.options import (
    add_catalog,
    add_json,
    add_option,
    catalog_layers,
    catalog_of,
)
from gpuyard.errors import EXIT_INFEASIBLE, EXIT_OK, Infeasible, InputError
from gpuyard.fabric.demand import (
    Addressing,
    AttachedHosts,
    Balancing,
    Demand,
    NicVendor,
    Purpose,
    Shape,
    Tenancy,
    Tenant,
)
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for, for_purpose, with_switches
from gpuyard.fabric.provider import ProviderFabric
from gpuyard.fabric.render.switch_os_list import os_names
from gpuyard.fabric.saved import to_json
from gpuyard.home import write_atomic
from gpuyard.report.fabric import facts_table
from gpuyard.report.table import Table, table_columns
from gpuyard.report.terminal import print_result, print_table, print_text

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
    add_option(
        parser,
        "FILE?",
        "a demand file (YAML), a workload, a saved plan or a saved fabric; flags override it",
    )
    _add_size(parser)
    _add_choice(parser)
    add_option(parser, "--option N", "option of the plan (default 1)", type=int, default=1)
    add_option(parser, "-o, --output FILE", "save the fabric as JSON")
    add_catalog(parser)
    add_json(parser)


def _add_size(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--gpus N", "total number of GPUs")
    add_option(parser, "--servers N", "total number of servers, instead of --gpus")
    add_option(
        parser, "--grow-to N", "final number of GPUs; the fabric grows to it without recabling"
    )
    add_option(parser, "--machine NAME", "machine of the catalog; sets GPUs, rails and NICs")
    add_option(parser, "--gpus-per-server N", "GPUs per server (default 8)")
    add_option(
        parser, "--rails N", "NICs per server (default 8; frontend and storage 2, management 1)"
    )
    add_option(
        parser, "--rails-per-leaf N", "NICs of each server on one leaf (default 1); 2 halve leaves"
    )
    add_option(
        parser,
        "--attach NAME=N...",
        "hosts without GPUs on a storage, frontend or management network, such as vast=8"
        " (repeatable)",
        type=_attached,
    )
    add_option(parser, "--nic SPEED", "NIC speed (default 400Gbps; management 1Gbps)")
    add_option(
        parser,
        "--nic-vendor",
        "decides the NIC script (default connectx; unknown for AMD GPUs)",
        choices=typing.get_args(NicVendor),
    )
    add_option(parser, "--planes N", "parallel planes (default 1)")
    add_option(
        parser,
        "--uplink-speed SPEED",
        "speed of links between switches (default: of NICs, or of ports if it saves cables)",
    )
    add_option(
        parser,
        "--oversubscription R",
        "oversubscription ratio (default 1: non-blocking; frontend 3)",
        type=float,
    )
    add_option(
        parser,
        "--min-spines N",
        "minimum number of spines (default 4, other networks than backends 2; 1 disables it)",
    )
    add_option(parser, "--shape", "topology (default auto)", choices=typing.get_args(Shape))
    add_option(
        parser, "--purpose", "network to design (default backend)", choices=typing.get_args(Purpose)
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--switch, --leaf NAME", "leaf switch (default: chosen)", dest="leaf")
    add_option(parser, "--spine NAME", "spine switch (default: chosen)")
    add_option(parser, "--core NAME", "core switch of a three-tier fabric")
    add_option(parser, "--os", "switch OS", choices=os_names())
    add_option(
        parser,
        "--addressing",
        "addresses of links (default ipv4)",
        choices=typing.get_args(Addressing),
    )
    add_option(
        parser,
        "--load-balancing",
        "load balancing (default: adaptive where the OS has it, else flowlet, else ecmp)",
        choices=typing.get_args(Balancing),
    )
    add_option(
        parser,
        "--tenancy",
        "isolation of tenants (default none; server with --tenant)",
        choices=typing.get_args(Tenancy),
    )
    add_option(
        parser,
        "--tenant NAME=FIRST-LAST...",
        "tenant and its servers, counted from 1; rails after a colon: a=1-8:0,1 (repeatable)",
        type=_tenant,
    )
    for tier, ends in (
        ("server", "server and leaf"),
        ("spine", "leaf and spine"),
        ("core", "spine and core"),
    ):
        add_option(parser, f"--{tier}-cable LENGTH", f"longest cable between {ends}")


def _tenant(text: str) -> Tenant:
    match = re.fullmatch(r"([^=\s]+)=(\d+)(?:-(\d+))?(?::([\d,]+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f'"{text}" is not a tenant; write it like blue=1-8')
    first, last = int(match[2]), int(match[3] or match[2])
    rails = tuple(int(rail) for rail in match[4].split(",") if rail) if match[4] else ()
    return Tenant(
        name=match[1], first_server=first, server_count=max(0, last - first + 1), rails=rails
    )


def _attached(text: str) -> AttachedHosts:
    name, mark, count = text.partition("=")
    if not mark or not count.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a group of hosts; write it like vast=8')
    return AttachedHosts(name=name, count=int(count))


def run(arguments: argparse.Namespace) -> int:
    """Print the designed fabric, or what makes it infeasible."""
    request = _request(arguments)
    fabric = (
        request
        if isinstance(request, Infeasible)
        else design_fabric(request.demand, request.catalog)
    )
    if isinstance(fabric, Infeasible):
        print_result({"infeasible": fabric}, str(fabric), as_json=arguments.json)
        return EXIT_INFEASIBLE
    if isinstance(fabric, ProviderFabric):
        print_result({"provider": fabric}, _provider(fabric), as_json=arguments.json)
        return EXIT_OK
    text = to_json(fabric)
    if arguments.output:
        write_atomic(arguments.output, text)
    if arguments.json:
        print_text(text)
    else:
        _print(fabric, arguments.output)
    return EXIT_OK


def _request(arguments: argparse.Namespace) -> FabricRequest | Infeasible:
    """The demand of the file, or of the flags alone; flags override the file."""
    saved: Fabric | None = None
    if arguments.file is not None:
        request = read_request(arguments.file, catalog_layers(arguments), arguments.option)
        if isinstance(request, Infeasible):
            return request
        demand, catalog, saved = request.demand, request.catalog, request.fabric
    else:
        catalog = catalog_of(arguments)
        if arguments.gpus is None and arguments.servers is None:
            raise InputError.one(
                "gpuyard fabric design",
                "the number of GPUs is missing",
                "add --gpus N, --servers N, or a file",
            )
        demand = Demand(server_count=1, nic_bits_per_s=NIC_BITS_PER_S)
        if arguments.machine:
            demand = demand_for(catalog.machine(arguments.machine), 1)
    if arguments.purpose == "management" and saved and saved.demand.purpose != "management":
        demand = with_switches(for_purpose(demand, "management"), saved)
    demand = _counted(_with_flags(demand, arguments), arguments)
    return FabricRequest(demand=demand, catalog=catalog)


def _with_flags(demand: Demand, arguments: argparse.Namespace) -> Demand:
    flags = {
        "gpus_per_server": arguments.gpus_per_server,
        "rails": arguments.rails,
        "rails_per_leaf": arguments.rails_per_leaf,
        "attached": tuple(arguments.attach) if arguments.attach else None,
        "nic_bits_per_s": arguments.nic,
        "nic_vendor": arguments.nic_vendor,
        "planes": arguments.planes,
        "uplink_bits_per_s": arguments.uplink_speed,
        "oversubscription_ratio": arguments.oversubscription,
        "min_spines": arguments.min_spines,
        "shape": arguments.shape,
        "leaf": arguments.leaf,
        "spine": arguments.spine,
        "core": arguments.core,
        "os": arguments.os,
        "addressing": arguments.addressing,
        "balancing": arguments.load_balancing,
        "tenancy": arguments.tenancy,
    }
    cables = {
        "server_m": arguments.server_cable,
        "spine_m": arguments.spine_cable,
        "core_m": arguments.core_cable,
    }
    if arguments.purpose is not None:
        demand = for_purpose(demand, arguments.purpose)
    demand = replace(demand, **{name: value for name, value in flags.items() if value is not None})
    demand = replace(
        demand,
        cables=replace(
            demand.cables, **{name: value for name, value in cables.items() if value is not None}
        ),
    )
    if arguments.tenant:
        tenancy: Tenancy = arguments.tenancy or (
            "gpu" if any(tenant.rails for tenant in arguments.tenant) else "server"
        )
        demand = replace(demand, tenants=tuple(arguments.tenant), tenancy=tenancy)
    return demand


def _counted(demand: Demand, arguments: argparse.Namespace) -> Demand:
    """The demand for the requested number of GPUs or servers."""
    per_server = demand.gpus_per_server
    for name, gpus in (("--gpus", arguments.gpus), ("--grow-to", arguments.grow_to)):
        if gpus is not None and gpus % per_server:
            nearest = -(-gpus // per_server) * per_server
            raise InputError.one(
                name, f"{gpus} GPUs do not fill servers of {per_server}", f"use {nearest}"
            )
    if arguments.gpus is not None:
        demand = replace(demand, server_count=arguments.gpus // per_server)
    elif arguments.servers is not None:
        demand = replace(demand, server_count=arguments.servers)
    return (
        replace(demand, grow_to_count=arguments.grow_to // per_server)
        if arguments.grow_to is not None
        else demand
    )


def _print(fabric: Fabric, output: Path | None) -> None:
    print_table(facts_table(fabric))
    for line in (*fabric.reasons, *fabric.limits, *fabric.lossless.notes):
        print_text(f"- {line}")
    if output:
        print_text(
            f"\nwrote {output}\nnext: `gpuyard fabric verify {output}`, `gpuyard fabric render"
            f" {output} -o configs`"
        )
    else:
        print_text("\nsave it with `-o fabric.json` for verify, render and draw")


def _provider(given: ProviderFabric) -> Table:
    """Responsibilities of provider and user for a cloud machine's network."""
    rows = [("given", line) for line in given.given] + [("ours", line) for line in given.ours]
    note = f"{given.machine}: provider-managed fabric, {given.transport}; nothing to design"
    return Table(
        columns=table_columns("whose", "what"),
        rows=tuple(rows),
        notes=(note,),
    )
