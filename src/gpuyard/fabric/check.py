"""What is wrong with a demand, whatever the switches; every problem at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.catalog import Catalog, Switch
from gpuyard.errors import InputError, Problem
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.routing import ENCAPSULATION_BYTES
from gpuyard.fabric.size import check_rails
from gpuyard.fabric.tenants import tenant_problems

__all__ = ["VXLAN_BYTES", "demand_problems"]

VXLAN_BYTES = 50  # outer Ethernet, IPv4, UDP and VXLAN headers on a tenant's packet (RFC 7348)


def demand_problems(demand: Demand, catalog: Catalog) -> list[Problem]:
    """Everything wrong with a demand; empty if it can be designed for."""
    return [*_numbers(demand), *_rails(demand), *_mtu(demand), *_names(demand, catalog), *tenant_problems(demand)]


def _numbers(demand: Demand) -> Iterator[Problem]:
    """Counts, speeds and ratios."""
    counts = {
        "server_count": demand.server_count, "gpus_per_server": demand.gpus_per_server, "planes": demand.planes,
        "rails": demand.rails, "min_spines": demand.min_spines, "servers_per_rack": demand.servers_per_rack,
        "spine_count": demand.spine_count, "links_per_pair": demand.links_per_pair,
        "servers_per_stripe": demand.servers_per_stripe, "grow_to_count": demand.grow_to_count,
    }  # fmt: skip
    for where, value in counts.items():
        if value is not None and value < 1:
            yield Problem(where=where, what=f"{value} is less than 1", fix="give a whole number from 1")
    if demand.grow_to_count is not None and demand.grow_to_count < demand.server_count:
        yield Problem(
            where="grow_to_count",
            what=f"{demand.grow_to_count} servers later are fewer than {demand.server_count} now",
            fix="give the final number of servers, or leave it out",
        )
    quantities = {
        "nic_bits_per_s": demand.nic_bits_per_s,
        "uplink_bits_per_s": demand.uplink_bits_per_s,
        "oversubscription_ratio": demand.oversubscription_ratio,
    }
    for where, quantity in quantities.items():
        if quantity is not None and not 0 < quantity < math.inf:
            yield Problem(where=where, what=f"{quantity:g} is not a quantity", fix="give a number above zero")
    if demand.links_per_pair and not demand.spine_count:
        yield Problem(
            where="links_per_pair",
            what="it is given without spine_count",
            fix="give spine_count too, or leave both to be reckoned",
        )


def _rails(demand: Demand) -> Iterator[Problem]:
    """Rails of a backend; other fabrics have as many NICs as they have."""
    if demand.purpose == "backend" and min(demand.rails, demand.gpus_per_server) > 0:
        problem = check_rails(demand.rails, demand.gpus_per_server)
        if problem:
            yield problem


def _mtu(demand: Demand) -> Iterator[Problem]:
    """A server's largest packet must pass every link whole, with the headers put around it."""
    room_bytes = demand.fabric_mtu_bytes - ENCAPSULATION_BYTES
    need_bytes = demand.host_mtu_bytes + (VXLAN_BYTES if demand.has_overlay else 0)
    if need_bytes > room_bytes:
        yield Problem(
            where="host_mtu_bytes",
            what=f"packets of {need_bytes:,} bytes do not pass links that carry {room_bytes:,}",
            fix=f"use a host MTU of at most {room_bytes - need_bytes + demand.host_mtu_bytes:,}"
            f" or a fabric MTU of at least {need_bytes + ENCAPSULATION_BYTES:,}",
        )


def _names(demand: Demand, catalog: Catalog) -> Iterator[Problem]:
    """Names that the catalog does not hold, switches that cannot work together, machines that come wired."""
    named: dict[str, Switch] = {}
    for role in ("leaf", "spine", "core"):
        name = getattr(demand, role)
        try:
            if name is not None:
                named[role] = catalog.switch(name)
        except InputError as error:
            yield Problem(where=role, what=error.problems[0].what, fix=error.problems[0].fix)
    for role, switch in named.items():
        if demand.os not in (None, "frr", *switch.os):
            yield Problem(
                where=role,
                what=f"{switch.label} does not run {demand.os}",
                fix=f"use {' or '.join(switch.os) or 'no OS: it is InfiniBand'}, or another switch",
            )
    yield from _in_common(demand, [*named.values()])
    yield from _machine(demand, catalog)


def _in_common(demand: Demand, named: list[Switch]) -> Iterator[Problem]:
    """Switches that run no OS in common, or are not of one technology."""
    if demand.os is not None or all(switch.technology == "infiniband" for switch in named):
        return
    if not set.intersection(*(set(switch.os) for switch in named)):
        labels = " and ".join(switch.label for switch in named)
        yield Problem(where="os", what=f"{labels} run no OS in common", fix="name switches that share one")


def _machine(demand: Demand, catalog: Catalog) -> Iterator[Problem]:
    """A machine that the catalog does not hold, or that comes wired."""
    if demand.machine is None:
        return
    try:
        machine = catalog.machine(demand.machine)
    except InputError as error:
        yield Problem(where="machine", what=error.problems[0].what, fix=error.problems[0].fix)
        return
    if machine.provider != "onprem":
        yield Problem(
            where="machine",
            what=f"{machine.name} comes with {machine.provider}'s own fabric, which is not ours to wire",
            fix="design for a machine that is bought; of a rented one only hosts and networks are to set",
        )
