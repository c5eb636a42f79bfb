"""The address plan: where ASNs, loopbacks and prefixes start, without overlaps.

Positions are those of the fabric after growth, so growing changes no ASN or address in use.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem
from gpuyard.fabric.clos import Clos
from gpuyard.fabric.demand import Demand, Purpose

# As in Apstra's blueprints: management, storage, GPUs.
ORDER: tuple[Purpose, ...] = ("frontend", "storage", "backend")
# A management network is numbered after the pools of the three others.
PLACES: dict[Purpose, int] = {
    **{purpose: place for place, purpose in enumerate(ORDER)},
    "management": 5,
}
PRIVATE_16 = (64512, 65534)  # RFC 6996
PRIVATE_32 = (4200000000, 4294967294)
APSTRA_ASNS = 100  # per pool in the Apstra design
# Link and server prefixes per purpose, disjoint in 10/8; JVD uses 10.200 for GPU servers.
PREFIXES = {
    "backend": ("10.128.0.0/11", "10.200.0.0/13"),
    "storage": ("10.160.0.0/11", "10.208.0.0/13"),
    "frontend": ("10.192.0.0/13", "10.216.0.0/13"),
    "management": ("10.232.0.0/13", "10.224.0.0/13"),
}
LOOPBACKS = {
    "backend": "10.0.0.1",
    "storage": "10.16.0.1",
    "frontend": "10.32.0.1",
    "management": "10.48.0.1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPlan:
    """The first ASN and address of each kind; addresses are integers."""

    core_asn: int
    spine_asn: int
    leaf_asn: int
    core_loopback: int
    spine_loopback: int
    leaf_loopback: int
    server: int
    stripe_block: int  # addresses per stripe, where the rails of a server are in order
    leaf_block: int | None  # addresses per leaf; None: rails in order, as Juniper publishes it
    link: int
    core_link: int  # first of the links between spines and cores

    def leaf_prefix(self, position: int) -> str | None:
        """Return the prefix of a leaf's server links; None if they are not one block."""
        if self.leaf_block is None:
            return None
        length = 33 - self.leaf_block.bit_length()
        return f"{dotted(self.server + position * self.leaf_block)}/{length}"


def dotted(address: int) -> str:
    """Return an IPv4 address as text."""
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def subflow_prefixes(stripe: int, rail: int, count: int) -> tuple[str, ...]:
    """Return the IPv6 gateways of a leaf, one per coloured path; stripe and rail count from 0."""
    return tuple(f"fd00:{stripe + 1:x}:{rail + 1:x}:{path:x}::1/64" for path in range(1, count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The counts of the fabric after growth, over all planes."""

    cores: int
    spines: int
    leaves: int
    leaf_links: int
    core_links: int
    stripes: int
    stripe_block: int
    leaf_block: int

    @classmethod
    def of(cls, demand: Demand, clos: Clos) -> _Counts:
        leaves, spines = clos.final_leaves, clos.final_spines
        ends = 2 * clos.leaf.servers * clos.rails * demand.planes
        return cls(
            cores=clos.cores * demand.planes,
            spines=spines * demand.planes,
            leaves=leaves * demand.planes,
            leaf_links=leaves * clos.leaf.uplinks * demand.planes,
            core_links=spines * clos.uplinks_per_spine * demand.planes,
            stripes=clos.final_stripes,
            stripe_block=max(256, 1 << (ends - 1).bit_length()),
            leaf_block=1 << (2 * clos.leaf.servers * clos.leaf.rails - 1).bit_length(),
        )


def address_plan(demand: Demand, clos: Clos) -> AddressPlan:
    """Return the address plan; raise InputError if a pool is malformed, too small or overlaps."""
    counts = _Counts.of(demand, clos)
    asns, loopbacks = _asns(demand, counts), _loopbacks(demand, counts)
    link_pool, server_pool = _prefixes(demand)
    by_leaf = demand.pools.scheme == "private" and demand.technology == "ethernet"
    problems = [
        *_overlaps("asn", "ASN", asns, counts),
        *_overlaps("loopback", "loopback", loopbacks, counts),
        *_too_small("link", link_pool, 2 * (counts.leaf_links + counts.core_links)),
        *_too_small(
            "server",
            server_pool,
            counts.leaves * counts.leaf_block if by_leaf else counts.stripes * counts.stripe_block,
        ),
    ]
    if link_pool.overlaps(server_pool):
        problems.append(
            Problem(
                where="pools",
                what=f"link {link_pool} and server {server_pool} overlap",
                fix="use a separate prefix for each",
            )
        )
    if problems:
        raise InputError(problems)
    link = int(link_pool.network_address)
    return AddressPlan(
        core_asn=asns[0],
        spine_asn=asns[1],
        leaf_asn=asns[2],
        core_loopback=loopbacks[0],
        spine_loopback=loopbacks[1],
        leaf_loopback=loopbacks[2],
        server=int(server_pool.network_address),
        stripe_block=counts.stripe_block,
        leaf_block=counts.leaf_block if by_leaf else None,
        link=link,
        core_link=link + 2 * counts.leaf_links,
    )


def _asns(demand: Demand, counts: _Counts) -> tuple[int, int, int]:
    pools, place = demand.pools, PLACES[demand.purpose]
    if pools.scheme == "jvd":
        first = (8, 108, 208)
    elif pools.scheme == "apstra":
        spine = APSTRA_ASNS * (2 * place + 1)
        first = (APSTRA_ASNS * (2 * len(ORDER) + 1 + place), spine, spine + APSTRA_ASNS)
    else:
        low, high = PRIVATE_16
        room = (high - low + 1) // len(ORDER)  # a disjoint range per purpose
        if counts.cores + counts.spines + counts.leaves > room or place >= len(ORDER):
            low, high = PRIVATE_32
            room = 1_000_000
        low += place * room
        first = (low, low + counts.cores, low + counts.cores + counts.spines)
    return pools.core_asn or first[0], pools.spine_asn or first[1], pools.leaf_asn or first[2]


def _loopbacks(demand: Demand, counts: _Counts) -> tuple[int, int, int]:
    pools, place = demand.pools, PLACES[demand.purpose]
    if pools.scheme == "jvd":
        first = [f"10.0.{number}.{host}" for number, host in ((2, 1), (0, 8), (1, 9))]
    elif pools.scheme == "apstra":
        first = [
            f"10.0.{number}.0" for number in (3 * len(ORDER) + place, 3 * place, 3 * place + 1)
        ]
    else:
        base = int(ipaddress.IPv4Address(LOOPBACKS[demand.purpose]))
        spine = base + -(-counts.cores // 256) * 256
        leaf = spine + -(-counts.spines // 256) * 256
        first = [dotted(base), dotted(spine), dotted(leaf)]
    given = (pools.core_loopback, pools.spine_loopback, pools.leaf_loopback)
    roles = ("core", "spine", "leaf")
    values = [
        _address(f"{role}_loopback", text or own)
        for role, text, own in zip(roles, given, first, strict=True)
    ]
    return values[0], values[1], values[2]


def _prefixes(demand: Demand) -> tuple[ipaddress.IPv4Network, ipaddress.IPv4Network]:
    pools, place = demand.pools, PLACES[demand.purpose]
    link, server = PREFIXES[demand.purpose]
    if pools.scheme == "apstra":
        link = f"10.0.{3 * place + 2}.0/24"
    return _network("link", pools.link or link), _network("server", pools.server or server)


def _overlaps(
    key: str, noun: str, first: tuple[int, int, int], counts: _Counts
) -> Iterator[Problem]:
    spans = zip(
        ("core", "spine", "leaf"), first, (counts.cores, counts.spines, counts.leaves), strict=True
    )
    used = [(start, start + count - 1, role) for role, start, count in spans if count]
    for (_, end, role), (start, _, other) in itertools.pairwise(sorted(used)):
        if end >= start:
            yield Problem(
                where=f"pools.{other}_{key}",
                what=f"the {noun}s of {role} and {other} switches overlap",
                fix="move one of the pools, or use scheme: private",
            )


def _too_small(key: str, pool: ipaddress.IPv4Network, needed: int) -> Iterator[Problem]:
    if needed > pool.num_addresses:
        length = 32 - (needed - 1).bit_length()
        yield Problem(
            where=f"pools.{key}",
            what=f"{pool} has {pool.num_addresses:,} addresses, and {needed:,} are needed",
            fix=f"use a prefix of length {length} or shorter",
        )


def _address(key: str, text: str) -> int:
    try:
        return int(ipaddress.IPv4Address(text))
    except ValueError:
        raise InputError.one(
            f"pools.{key}", f'"{text}" is not an IPv4 address', "write it like 10.0.0.8"
        ) from None


def _network(key: str, text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise InputError.one(
            f"pools.{key}", f'"{text}": {error}', "write it like 10.200.0.0/16"
        ) from None
