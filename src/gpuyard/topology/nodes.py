"""Nodes of a topology: servers and switches, their ports, and the tier of each role."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc

Role = Literal["server", "leaf", "spine", "core"]

# Traffic climbs the tiers and then descends; servers (tier 0) send and receive but never forward.
TIERS: dict[str, int] = {"server": 0, "leaf": 1, "spine": 2, "core": 3}
ROLES: tuple[Role, ...] = ("server", "leaf", "spine", "core")
SWITCH_ROLES: tuple[Role, ...] = ("leaf", "spine", "core")

_port_name = attrgetter("name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that a node declares, with its rail and plane."""

    name: str
    rail: int | None = None
    plane: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A server or a switch; ports and attributes are sorted by name."""

    name: str
    role: Role
    stripe: Annotated[int | None, Doc("scalable unit: one leaf per rail and its servers")] = None
    rail: Annotated[int | None, Doc("of a leaf: the index of the NICs on it")] = None
    plane: Annotated[int | None, Doc("of a switch: the parallel network it belongs to")] = None
    model: Annotated[str | None, Doc("catalog name of the machine or switch")] = None
    ports: Annotated[tuple[Port, ...], Doc("if any are declared, links may use only these")] = ()
    attributes: Annotated[
        tuple[tuple[str, str], ...], Doc("key and value: rack, serial number, …")
    ] = ()

    def __post_init__(self) -> None:
        if len(self.ports) > 1:
            object.__setattr__(self, "ports", _in_order(self.ports))
        if len(self.attributes) > 1:
            object.__setattr__(self, "attributes", tuple(sorted(self.attributes)))

    @property
    def tier(self) -> int:
        return TIERS[self.role]

    def rail_of(self, port: str) -> int | None:
        declared = self._declared(port)
        return self.rail if declared is None or declared.rail is None else declared.rail

    def plane_of(self, port: str) -> int | None:
        declared = self._declared(port)
        return self.plane if declared is None or declared.plane is None else declared.plane

    def attribute(self, key: str) -> str | None:
        return next((value for name, value in self.attributes if name == key), None)

    def _declared(self, port: str) -> Port | None:
        return next((declared for declared in self.ports if declared.name == port), None)


def _in_order(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    # A sorted tuple is returned as it is, so that thousands of servers share one.
    ordered = tuple(sorted(ports, key=_port_name))
    return ports if ordered == ports else ordered
