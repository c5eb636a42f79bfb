"""A lab: a fabric, the rates of its cables on this host, and the names that its parts have here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric
from gpuyard.fabric.routing import Bfd
from gpuyard.topology import End

__all__ = ["PREFIX", "Lab", "Wire", "lab_of", "wires_of"]

PREFIX = "gy-"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,15}")
MOST_BITS_PER_S = 10e9  # of a shaped veth; above that the CPU is what is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A cable of the lab."""

    a: End
    b: End
    rate_bits_per_s: float

    def joins(self, node: str) -> bool:
        """True when one end is at the node."""
        return node in (self.a.node, self.b.node)

    def port_of(self, node: str) -> str:
        """The port at the node."""
        return self.a.port if self.a.node == node else self.b.port


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A fabric on this host."""

    name: str
    fabric: Fabric
    wires: Annotated[tuple[Wire, ...], Doc("as they are laid; as designed, but for what was crossed on purpose")]

    def namespace(self, node: str) -> str:
        """The network namespace of a device."""
        return f"{PREFIX}{self.name}_{node}"


def lab_of(
    fabric: Fabric,
    *,
    name: str = "lab",
    rate_bits_per_s: float = 200e6,
    bfd_interval_s: float | None = None,
    crossed: Sequence[tuple[int, int]] = (),
) -> Lab:
    """The lab of a fabric; a NIC gets `rate_bits_per_s`, the other links keep their ratio to it.

    `crossed` exchanges the far ends of two cables, by their numbers in the topology: a miswiring on purpose.
    """
    if not _NAME.fullmatch(name):
        raise InputError.one("--name", f'"{name}" cannot name a lab', "use up to 16 small letters, digits and dashes")
    if not 1e6 <= rate_bits_per_s <= MOST_BITS_PER_S:
        raise InputError.one("--rate", f"{rate_bits_per_s:g} bit/s", "write 1Mbps to 10Gbps: veths are no 400G ports")
    if bfd_interval_s is not None:
        bfd = Bfd(interval_s=bfd_interval_s, multiplier=fabric.routing.bfd.multiplier)
        fabric = replace(fabric, routing=replace(fabric.routing, bfd=bfd))
    return Lab(name=name, fabric=fabric, wires=wires_of(fabric, rate_bits_per_s, crossed))


def wires_of(fabric: Fabric, rate_bits_per_s: float, crossed: Sequence[tuple[int, int]] = ()) -> tuple[Wire, ...]:
    """The cables with the rates that they get here."""
    scale = rate_bits_per_s / fabric.demand.plane_bits_per_s
    wires = [Wire(a=link.a, b=link.b, rate_bits_per_s=link.speed_bits_per_s * scale) for link in fabric.topology.links]
    for first, second in crossed:
        one, other = wires[first], wires[second]
        wires[first], wires[second] = replace(one, b=other.b), replace(other, b=one.b)
    return tuple(wires)
