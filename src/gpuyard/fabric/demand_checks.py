"""Validation of fabric requirements, independent of the choice of switches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.switches import Switch
from gpuyard.errors import InputError, Problem, choices_text
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.render.switch_os_list import os_names, switch_os
from gpuyard.fabric.routing import ENCAPSULATION_BYTES
from gpuyard.fabric.size import check_rails
from gpuyard.fabric.tenants import tenant_problems

NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
VXLAN_BYTES = 50  # outer Ethernet, IPv4, UDP and VXLAN headers (RFC 7348)


def demand_problems(demand: Demand, catalog: Catalog) -> list[Problem]:
    """Return everything wrong with a demand; empty if it is valid."""
    return [
        *_numbers(demand),
        *_rails(demand),
        *_attached(demand),
        *_mtu(demand),
        *_names(demand, catalog),
        *tenant_problems(demand),
    ]


def _numbers(demand: Demand) -> Iterator[Problem]:
    counts = {
        "server_count": demand.server_count,
        "gpus_per_server": demand.gpus_per_server,
        "planes": demand.planes,
        "rails": demand.rails,
        "servers_per_domain": demand.servers_per_domain,
        "min_spines": demand.min_spines,
        "servers_per_rack": demand.servers_per_rack,
        "spine_count": demand.spine_count,
        "links_per_pair": demand.links_per_pair,
        "servers_per_stripe": demand.servers_per_stripe,
        "grow_to_count": demand.grow_to_count,
    }
    for where, value in counts.items():
        if value is not None and value < 1:
            yield Problem(where=where, what=f"{value} is less than 1", fix="use at least 1")
    if demand.grow_to_count is not None and demand.grow_to_count < demand.server_count:
        yield Problem(
            where="grow_to_count",
            what=f"{demand.grow_to_count} servers after growth are fewer than"
            f" {demand.server_count} now",
            fix="set the final number of servers, or remove it",
        )
    quantities = {
        "nic_bits_per_s": demand.nic_bits_per_s,
        "uplink_bits_per_s": demand.uplink_bits_per_s,
        "oversubscription_ratio": demand.oversubscription_ratio,
    }
    for where, quantity in quantities.items():
        if quantity is not None and not 0 < quantity < math.inf:
            yield Problem(
                where=where, what=f"{quantity:g} is not positive", fix="use a number above zero"
            )
    if demand.links_per_pair and not demand.spine_count:
        yield Problem(
            where="links_per_pair",
            what="is set without spine_count",
            fix="set spine_count too, or remove links_per_pair",
        )


def _rails(demand: Demand) -> Iterator[Problem]:
    if demand.rails_per_leaf < 1 or demand.rails % demand.rails_per_leaf:
        yield Problem(
            where="rails_per_leaf",
            what=f"{demand.rails_per_leaf} rails per leaf do not divide {demand.rails} rails",
            fix="use a divisor of the number of rails, such as 1 or 2",
        )
    if demand.purpose in ("frontend", "storage") and demand.rails_per_leaf > 1:
        yield Problem(
            where="rails_per_leaf",
            what=f"a {demand.purpose} network gives each NIC of a server its own leaf",
            fix="remove rails_per_leaf, so that a server survives the loss of a leaf",
        )
    if demand.purpose == "backend" and min(demand.rails, demand.gpus_per_server) > 0:
        problem = check_rails(demand.rails, demand.gpus_per_server)
        if problem:
            yield problem


def _attached(demand: Demand) -> Iterator[Problem]:
    names = [hosts.name for hosts in demand.attached]
    for index, hosts in enumerate(demand.attached):
        if not NAME.fullmatch(hosts.name) or names.count(hosts.name) > 1 or hosts.name == "server":
            yield Problem(
                where=f"attached[{index}]",
                what=f'"{hosts.name}" is a duplicate, taken or not a plain name',
                fix="use unique names of letters, digits and hyphens, such as vast",
            )
        if hosts.names and len(set(hosts.names)) != hosts.count:
            yield Problem(
                where=f"attached[{index}].names",
                what=f"{len(set(hosts.names))} different names for {hosts.count} hosts",
                fix="name every host once, or remove the names",
            )
        if hosts.count < 1:
            yield Problem(
                where=f"attached[{index}]",
                what=f"{hosts.count} is less than 1",
                fix="use at least 1",
            )
    if demand.attached and demand.purpose == "backend":
        yield Problem(
            where="attached",
            what="hosts without GPUs are on the storage, frontend or management network",
            fix="use another purpose, or remove them",
        )


def _mtu(demand: Demand) -> Iterator[Problem]:
    ip_mtu_bytes = demand.fabric_mtu_bytes - ENCAPSULATION_BYTES
    need_bytes = demand.host_mtu_bytes + (VXLAN_BYTES if demand.has_overlay else 0)
    if need_bytes > ip_mtu_bytes:
        largest_bytes = ip_mtu_bytes - need_bytes + demand.host_mtu_bytes
        yield Problem(
            where="host_mtu_bytes",
            what=f"packets of {need_bytes:,} bytes exceed the {ip_mtu_bytes:,} of fabric links",
            fix=f"use a host MTU of at most {largest_bytes:,}"
            f" or a fabric MTU of at least {need_bytes + ENCAPSULATION_BYTES:,}",
        )


def _names(demand: Demand, catalog: Catalog) -> Iterator[Problem]:
    named: dict[str, Switch] = {}
    for role in ("leaf", "spine", "core"):
        name = getattr(demand, role)
        try:
            if name is not None:
                named[role] = catalog.switch(name)
        except InputError as error:
            yield Problem(where=role, what=error.problems[0].what, fix=error.problems[0].fix)
    yield from _os(demand, named)
    yield from _shared_os(demand, [*named.values()])
    yield from _machine(demand, catalog)


def _os(demand: Demand, named: dict[str, Switch]) -> Iterator[Problem]:
    for role, switch in named.items():
        for name in switch.os:
            if name not in os_names():
                yield Problem(
                    where=role,
                    what=f'the catalog entry of {switch.label} has the unknown OS "{name}"',
                    fix=f"use {choices_text(os_names())} there",
                )
    if demand.os is None:
        return
    try:
        os = switch_os(demand.os)
    except InputError as error:
        yield from error.problems
        return
    for role, switch in named.items():
        if not os.runs_on(switch):
            yield Problem(
                where=role,
                what=f"{switch.label} does not run {os.name}",
                fix=f"use {' or '.join(switch.os) or 'no OS: it is InfiniBand'}, or another switch",
            )


def _shared_os(demand: Demand, named: list[Switch]) -> Iterator[Problem]:
    if demand.os is not None or all(switch.technology == "infiniband" for switch in named):
        return
    if not set.intersection(*(set(switch.os) for switch in named)):
        labels = " and ".join(switch.label for switch in named)
        yield Problem(
            where="os", what=f"{labels} share no OS", fix="choose switches that share one"
        )


def _machine(demand: Demand, catalog: Catalog) -> Iterator[Problem]:
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
            what=f"{machine.name} comes with a fabric managed by {machine.provider}",
            fix="design a fabric for an on-premises machine",
        )
