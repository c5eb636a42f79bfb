"""Reasons for the design choices of a fabric, and its growth limits, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible
from gpuyard.fabric.clos_fit import ClosFit, fit
from gpuyard.fabric.demand import Demand
from gpuyard.units import BITS_PER_S, show


def reasons(demand: Demand, parts: ClosFit, catalog: Catalog) -> tuple[str, ...]:
    """Return a reason per choice; `demand` is the original one, before completion."""
    return (
        *_switches(demand, parts),
        *_shape(demand, parts),
        *_spines(demand, parts),
        *_links(demand, parts),
        *_servers(demand, parts, catalog),
    )


def _switches(demand: Demand, parts: ClosFit) -> Iterator[str]:
    if demand.leaf is None:
        yield (
            f"{parts.leaf.label} was chosen: at most 2-way breakouts, then fewest tiers,"
            " then fewest switches, then least known power"
        )
    if parts.spine is not None and parts.spine.chassis and demand.spine is None:
        most = (
            parts.leaf.port_count
            * parts.up_ways
            // parts.clos.leaves_per_stripe
            * parts.clos.leaf.servers
        )
        yield (
            f"{parts.spine.label} as spine: two tiers of {parts.leaf.label} end at {most:,}"
            " servers, and with a chassis every path crosses one spine"
        )


def _shape(demand: Demand, parts: ClosFit) -> Iterator[str]:
    size = parts.size
    if demand.shape == "rail-only":
        yield (
            f"rail-only: {size.leaves} leaves and no spine; traffic to another rail changes rails"
            " inside a server (PXN over NVLink), which costs MoE all-to-all 8 to 11 %"
            " (arXiv 2307.12169)"
        )
    elif parts.clos.leaf.rails > 1 and not parts.clos.single_leaf:
        yield (
            f"{parts.clos.leaf.rails} rails per leaf: {parts.clos.leaves_per_stripe} leaves in a"
            f" stripe of {size.servers_per_stripe} servers; if a leaf fails, a server loses"
            f" {parts.clos.leaf.rails} NICs"
        )
    elif parts.clos.single_leaf:
        yield "single leaf: every NIC is one hop from every other; a single point of failure"
    elif demand.purpose == "management":
        yield "one port per device: BMCs of servers and management ports of switches"
    elif demand.purpose != "backend":
        yield "each NIC of a server has its own leaf: the server stays reachable if a leaf fails"
    else:
        yield (
            "rail k of every server goes to leaf k of its stripe: traffic that stays on a rail"
            " (most of it, with NCCL's PXN) crosses one leaf in a stripe of"
            f" {size.servers_per_stripe} servers"
        )
    if size.tiers == 3:
        yield (
            f"three tiers: {size.pods} pods of {parts.clos.stripes_per_pod} stripes; spines with"
            f" the same number in their pods share {size.cores_per_group} cores, and a spine has"
            " as many links up as down"
        )
    if demand.planes > 1:
        yield (
            f"{demand.planes} planes: each NIC of {show(demand.nic_bits_per_s, BITS_PER_S)} is"
            f" split into {demand.planes} links of {show(demand.plane_bits_per_s, BITS_PER_S)},"
            " which multiplies the links per switch; if a plane fails, the NIC keeps the others"
        )


def _spines(demand: Demand, parts: ClosFit) -> Iterator[str]:
    clos, size = parts.clos, parts.size
    if not size.spines:
        return
    leaves = clos.stripes_per_pod * clos.leaves_per_stripe
    ports = clos.spine_links if clos.tiers == 2 else clos.spine_links // 2
    needed = -(-leaves * clos.leaf.uplinks // ports)
    if demand.spine_count:
        yield f"{demand.spine_count} spines as requested; {needed} would carry the uplinks"
    elif needed < demand.min_spines <= size.spines_per_pod:
        yield (
            f"{size.spines_per_pod} spines although {needed} would suffice: below"
            f" {demand.min_spines}, two failures under congestion have caused PFC storms"
            " (Juniper's validated designs); min_spines: 1 disables this"
        )
    else:
        yield (
            f"{size.spines_per_pod} spines{' per pod' if clos.tiers == 3 else ''}: the smallest"
            f" number that divides the {clos.leaf.uplinks} uplinks per leaf and is at least"
            f" {leaves} x {clos.leaf.uplinks} / {ports}"
            f" = {leaves * clos.leaf.uplinks / ports:g}, so that every leaf has"
            f" {clos.links_per_pair} link{'s' if clos.links_per_pair > 1 else ''} to every spine"
        )


def _links(demand: Demand, parts: ClosFit) -> Iterator[str]:
    size = parts.size
    if parts.down_ways > 1:
        yield (
            f"a port of {show(parts.leaf.port_bits_per_s, BITS_PER_S)} is split into"
            f" {parts.down_ways} links of {show(demand.plane_bits_per_s, BITS_PER_S)}"
            " toward servers"
        )
    if size.spines and demand.link_bits_per_s != demand.plane_bits_per_s:
        yield (
            f"{size.servers_per_stripe} x {show(demand.plane_bits_per_s, BITS_PER_S)} down and"
            f" {size.uplinks_per_leaf_and_plane} x {show(demand.link_bits_per_s, BITS_PER_S)} up"
            " per leaf"
        )
    if size.spines and size.oversubscription_ratio > 1 + 1e-9:
        yield (
            f"oversubscribed {size.oversubscription_ratio:.3g}:1:"
            " servers can send more than the uplinks carry"
        )
    elif size.spines and size.oversubscription_ratio < 1 - 1e-9:
        yield f"more uplink than server bandwidth: {size.oversubscription_ratio:.3g}:1"
    if demand.final_count > demand.server_count:
        yield (
            f"spine ports are reserved for {demand.final_count:,} servers: the cabling of the first"
            f" {demand.server_count:,} keeps its ports, names, ASNs and addresses"
        )
        yield from _growth(demand, parts)


def _growth(demand: Demand, parts: ClosFit) -> Iterator[str]:
    """What the reservation costs now, compared with a fabric for the present servers alone."""
    present = fit(
        replace(demand, grow_to_count=None), parts.leaf, parts.spine or parts.leaf, parts.core
    )
    if isinstance(present, Infeasible):
        return
    switches = parts.size.switches - present.size.switches
    cables = (parts.size.leaf_spine_cables + parts.size.spine_core_cables) - (
        present.size.leaf_spine_cables + present.size.spine_core_cables
    )
    yield (
        f"growth to {demand.final_count:,} servers costs {switches:+,} switches and {cables:+,}"
        f" cables between switches now, compared with a fabric for {demand.server_count:,} servers"
    )


def _servers(demand: Demand, parts: ClosFit, catalog: Catalog) -> Iterator[str]:
    if demand.machine is None or demand.purpose != "backend":
        return
    domain = catalog.machine(demand.machine).scale_up_domain_count
    if domain is None:
        return
    servers = -(-domain // demand.gpus_per_server)
    if servers > 1:
        per_stripe = parts.size.servers_per_stripe
        yield (
            f"a scale-up domain is {domain} GPUs in {servers} servers, whose traffic does not use"
            f" this fabric; a stripe of {per_stripe} servers has {per_stripe // servers} whole"
            " domains, and jobs are best placed by domain"
        )
    else:
        yield (
            f"the {domain} GPUs of a server share a scale-up domain:"
            " only traffic between servers uses this fabric"
        )


def limits(demand: Demand, parts: ClosFit) -> tuple[str, ...]:
    """Return how far the fabric can grow, and the binding constraint."""
    clos, size = parts.clos, parts.size
    gpus = size.most_nodes * demand.gpus_per_server
    if clos.tiers == 1:
        return (f"{size.most_nodes:,} servers ({gpus:,} GPUs): ports per leaf",)
    if clos.tiers == 2:
        reach = clos.spine_links // clos.leaves_per_stripe * clos.leaf.servers
        now = (
            f"{size.most_nodes:,} servers ({gpus:,} GPUs)"
            f" with {size.spines_per_pod} spines per plane"
        )
        bound = (
            f"{clos.spine_links} links per spine"
            f" / ({clos.leaves_per_stripe} leaves x {clos.links_per_pair} per leaf)"
        )
        more = (
            f"{reach:,} servers with {clos.leaf.uplinks} spines per plane,"
            " after recabling the uplinks"
        )
        return (f"{now}: {bound}", *([more] if reach > size.most_nodes else []))
    bound = f"{clos.core_links} links per core / {clos.links_per_core_pair} per pod"
    return (f"{size.most_nodes:,} servers ({gpus:,} GPUs) with {size.cores} cores: {bound}",)
