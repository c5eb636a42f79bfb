"""What stands in the fabric: servers and switches, their ports, and the tier of each role."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Literal

from gpuyard.document import Doc

__all__ = ["ROLES", "SWITCH_ROLES", "TIERS", "Node", "Port", "Role"]

Role = Literal["server", "leaf", "spine", "core"]

# Height above the servers. Traffic climbs and then descends; tier 0 sends and receives but never forwards.
TIERS: dict[str, int] = {"server": 0, "leaf": 1, "spine": 2, "core": 3}
ROLES: tuple[Role, ...] = ("server", "leaf", "spine", "core")
SWITCH_ROLES: tuple[Role, ...] = ("leaf", "spine", "core")

_port_name = attrgetter("name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that a node declares, with the rail and plane that it belongs to."""

    name: str
    rail: int | None = None
    plane: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A server or a switch; ports and attributes are kept in order of their names."""

    name: str
    role: Role
    stripe: Annotated[int | None, Doc("the group of leaves and servers that is replicated")] = None
    rail: Annotated[int | None, Doc("of a leaf: the NIC number that it serves")] = None
    plane: Annotated[int | None, Doc("of a switch: the parallel network that it is part of")] = None
    model: Annotated[str | None, Doc("the machine or switch by its catalog name")] = None
    ports: Annotated[tuple[Port, ...], Doc("if any are declared, a link may use no other")] = ()
    attributes: Annotated[tuple[tuple[str, str], ...], Doc("key and value: rack, serial number, …")] = ()

    def __post_init__(self) -> None:
        if len(self.ports) > 1:
            object.__setattr__(self, "ports", _in_order(self.ports))
        if len(self.attributes) > 1:
            object.__setattr__(self, "attributes", tuple(sorted(self.attributes)))

    @property
    def tier(self) -> int:
        """How high the node stands: 0 for a server."""
        return TIERS[self.role]

    def rail_of(self, port: str) -> int | None:
        """The rail of a port: its own if declared, otherwise the node's."""
        declared = self._declared(port)
        return self.rail if declared is None or declared.rail is None else declared.rail

    def plane_of(self, port: str) -> int | None:
        """The plane of a port: its own if declared, otherwise the node's."""
        declared = self._declared(port)
        return self.plane if declared is None or declared.plane is None else declared.plane

    def attribute(self, key: str) -> str | None:
        """The value of an attribute, or None."""
        return next((value for name, value in self.attributes if name == key), None)

    def _declared(self, port: str) -> Port | None:
        """The declared port of that name, or None."""
        return next((declared for declared in self.ports if declared.name == port), None)


def _in_order(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """The ports by name; a tuple already in order is given back, so that thousands of servers can share one."""
    ordered = tuple(sorted(ports, key=_port_name))
    return ports if ordered == ports else ordered
