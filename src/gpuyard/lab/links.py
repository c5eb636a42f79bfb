"""The lab: a fabric emulated on this host, with the rates of its links and its namespaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.routing import Bfd
from gpuyard.topology.links import End

PREFIX = "gy-"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,15}")
MAX_BITS_PER_S = 10e9  # of a shaped veth; above that, the CPU is the bottleneck


@dataclass(frozen=True, slots=True, kw_only=True)
class LabLink:
    """A link of the lab."""

    a: End
    b: End
    rate_bits_per_s: float

    def connects(self, node: str) -> bool:
        return node in (self.a.node, self.b.node)

    def port_of(self, node: str) -> str:
        return self.a.port if self.a.node == node else self.b.port


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A fabric emulated on this host."""

    name: str
    fabric: Fabric
    links: Annotated[tuple[LabLink, ...], Doc("as built: as designed, except crossed links")]

    def namespace(self, node: str) -> str:
        return f"{PREFIX}{self.name}_{node}"


def lab_of(
    fabric: Fabric,
    *,
    name: str = "lab",
    rate_bits_per_s: float = 200e6,
    bfd_interval_s: float | None = None,
    crossed: Sequence[tuple[int, int]] = (),
) -> Lab:
    """Return the lab of a fabric; a NIC gets `rate_bits_per_s`, other links keep their ratio to it.

    `crossed` swaps the far ends of two links, by index in the topology: a deliberate miswiring.
    """
    if not _NAME.fullmatch(name):
        raise InputError.one(
            "--name",
            f'"{name}" cannot name a lab',
            "use up to 16 lower-case letters, digits and dashes",
        )
    if not 1e6 <= rate_bits_per_s <= MAX_BITS_PER_S:
        raise InputError.one(
            "--rate", f"{rate_bits_per_s:g} bit/s", "use 1Mbps to 10Gbps, which a veth can carry"
        )
    if bfd_interval_s is not None:
        bfd = Bfd(interval_s=bfd_interval_s, multiplier=fabric.routing.bfd.multiplier)
        fabric = replace(fabric, routing=replace(fabric.routing, bfd=bfd))
    return Lab(name=name, fabric=fabric, links=_lab_links(fabric, rate_bits_per_s, crossed))


def _lab_links(
    fabric: Fabric, rate_bits_per_s: float, crossed: Sequence[tuple[int, int]]
) -> tuple[LabLink, ...]:
    scale = rate_bits_per_s / fabric.demand.plane_bits_per_s
    links = [
        LabLink(a=link.a, b=link.b, rate_bits_per_s=link.speed_bits_per_s * scale)
        for link in fabric.topology.links
    ]
    for first, second in crossed:
        one, other = links[first], links[second]
        links[first] = replace(one, b=other.b)
        links[second] = replace(other, b=one.b)
    return tuple(links)
