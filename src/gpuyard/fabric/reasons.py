"""Why a fabric is built as it is, and how far it goes: one sentence a choice."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fit import Parts
from gpuyard.units import BITS_PER_S, show

__all__ = ["limits", "reasons"]


def reasons(demand: Demand, parts: Parts, catalog: Catalog) -> tuple[str, ...]:
    """Why each choice was made; the demand as it was asked, before it was completed."""
    return (*_switches(demand, parts), *_shape(demand, parts), *_spines(demand, parts), *_links(demand, parts),
            *_servers(demand, parts, catalog))  # fmt: skip


def _switches(demand: Demand, parts: Parts) -> Iterator[str]:
    """Why these switches."""
    if demand.leaf is None:
        yield (
            f"{parts.leaf.label} was chosen: ports split in two at most, then fewest tiers, then fewest switches,"
            " then least power where it is known"
        )
    if parts.spine is not None and parts.spine.chassis and demand.spine is None:
        most = parts.leaf.port_count * parts.up_ways // demand.rails * parts.clos.leaf.servers
        yield (
            f"{parts.spine.label} as spine: two tiers of {parts.leaf.label} end at {most:,} servers,"
            " and a chassis keeps every path at one spine"
        )


def _shape(demand: Demand, parts: Parts) -> Iterator[str]:
    """Why this shape."""
    size = parts.size
    if demand.shape == "rail-only":
        yield (
            f"rail-only: {size.leaves} leaves and no spine; a message to another rail must change rails inside a"
            " server (PXN over NVLink) before it leaves, and all-to-all of experts pays 8 to 11 % (arXiv 2307.12169)"
        )
    elif demand.shape == "single-leaf":
        yield "single leaf: every NIC is one hop from every other, and the switch is a single point of failure"
    elif demand.purpose != "backend":
        yield "each NIC of a server goes to a leaf of its own: one leaf may fail and the server stays reachable"
    else:
        yield (
            f"rail k of every server goes to leaf k of its stripe: traffic that stays on a rail"
            f" (NCCL with PXN makes most of it do so) crosses one leaf in a stripe of {size.servers_per_stripe} servers"
        )
    if size.tiers == 3:
        yield (
            f"three tiers: {size.pods} pods of {parts.clos.stripes_per_pod} stripes; spines of one number in their pods"
            f" share {size.cores_per_group} cores, and a spine has as many links up as down"
        )
    if demand.planes > 1:
        yield (
            f"{demand.planes} planes: each NIC of {show(demand.nic_bits_per_s, BITS_PER_S)} is split into"
            f" {demand.planes} links of {show(demand.plane_bits_per_s, BITS_PER_S)}, which multiplies the links of"
            " a switch; a plane may fail and the NIC keeps the rest"
        )


def _spines(demand: Demand, parts: Parts) -> Iterator[str]:
    """Why so many spines."""
    clos, size = parts.clos, parts.size
    if not size.spines:
        return
    leaves = clos.stripes_per_pod * clos.rails
    ports = clos.spine_links if clos.tiers == 2 else clos.spine_links // 2
    needed = -(-leaves * clos.leaf.uplinks // ports)
    if demand.spine_count:
        yield f"{demand.spine_count} spines because they were asked for; {needed} would carry the uplinks"
    elif needed < demand.min_spines <= size.spines_per_pod:
        yield (
            f"{size.spines_per_pod} spines although {needed} would do: below {demand.min_spines}, two failures"
            " and congestion have set off PFC storms (Juniper's validated designs); min_spines: 1 switches this off"
        )
    else:
        yield (
            f"{size.spines_per_pod} spines{' a pod' if clos.tiers == 3 else ''}: the smallest number that divides"
            f" the {clos.leaf.uplinks} uplinks of a leaf and is not below {leaves} x {clos.leaf.uplinks} / {ports}"
            f" = {leaves * clos.leaf.uplinks / ports:g}, so that every leaf reaches every spine over"
            f" {clos.links_per_pair} link{'s' if clos.links_per_pair > 1 else ''}"
        )


def _links(demand: Demand, parts: Parts) -> Iterator[str]:
    """Speeds, splits and the ratio."""
    size = parts.size
    if parts.down_ways > 1:
        yield (
            f"a port of {show(parts.leaf.port_bits_per_s, BITS_PER_S)} is split into {parts.down_ways} links of"
            f" {show(demand.plane_bits_per_s, BITS_PER_S)} toward servers"
        )
    if size.spines and demand.link_bits_per_s != demand.plane_bits_per_s:
        yield (
            f"{size.servers_per_stripe} x {show(demand.plane_bits_per_s, BITS_PER_S)} down and"
            f" {size.uplinks_per_leaf_and_plane} x {show(demand.link_bits_per_s, BITS_PER_S)} up on each leaf"
        )
    if size.spines and size.oversubscription_ratio > 1 + 1e-9:
        yield f"oversubscribed {size.oversubscription_ratio:.3g} to 1: servers can send more than the uplinks carry"
    elif size.spines and size.oversubscription_ratio < 1 - 1e-9:
        yield f"more uplink than server bandwidth: {size.oversubscription_ratio:.3g} to 1"
    if demand.final_count > demand.server_count:
        yield (
            f"spine ports are kept free for {demand.final_count:,} servers: what is cabled for"
            f" {demand.server_count:,} keeps its ports, names, ASNs and addresses"
        )


def _servers(demand: Demand, parts: Parts, catalog: Catalog) -> Iterator[str]:
    """What the servers' own scale-up network means here."""
    if demand.machine is None or demand.purpose != "backend":
        return
    domain = catalog.machine(demand.machine).scale_up_domain_count
    if domain is None:
        return
    servers = -(-domain // demand.gpus_per_server)
    if servers > 1:
        per_stripe = parts.size.servers_per_stripe
        whole = per_stripe // servers
        yield (
            f"a scale-up domain is {domain} GPUs in {servers} servers: traffic among them does not touch this fabric;"
            f" a stripe of {per_stripe} holds {whole} whole domains, and jobs are best placed by them"
        )
    else:
        yield f"the {domain} GPUs of a server share a scale-up domain: only traffic between servers touches this fabric"


def limits(demand: Demand, parts: Parts) -> tuple[str, ...]:
    """How far the fabric grows, and what binds then."""
    clos, size = parts.clos, parts.size
    gpus = size.most_nodes * demand.gpus_per_server
    if clos.tiers == 1:
        return (f"{size.most_nodes:,} servers ({gpus:,} GPUs): the ports of a leaf",)
    if clos.tiers == 2:
        reach = clos.spine_links // clos.rails * clos.leaf.servers
        now = f"{size.most_nodes:,} servers ({gpus:,} GPUs) with {size.spines_per_pod} spines a plane"
        bound = f"{clos.spine_links} links of a spine / ({clos.rails} rails x {clos.links_per_pair} a leaf)"
        more = f"{reach:,} servers with {clos.leaf.uplinks} spines a plane, after recabling the uplinks"
        return (f"{now}: {bound}", *([more] if reach > size.most_nodes else []))
    bound = f"{clos.core_links} links of a core / {clos.links_per_core_pair} a pod"
    return (f"{size.most_nodes:,} servers ({gpus:,} GPUs) with {size.cores} cores: {bound}",)
