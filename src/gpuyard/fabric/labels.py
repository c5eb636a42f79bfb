"""Cable labels: for each end, its own port and the port of the other end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuyard.fabric.fabric import Fabric
from gpuyard.topology.links import End
from gpuyard.topology.nodes import TIERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A cable with its number, ends and racks."""

    number: int
    lower: End
    upper: End
    lower_rack: str
    upper_rack: str
    speed_bits_per_s: float
    cable_m: float | None

    @property
    def lower_text(self) -> str:
        return f"{_place(self.lower_rack, self.lower)} > {_place(self.upper_rack, self.upper)}"

    @property
    def upper_text(self) -> str:
        return f"{_place(self.upper_rack, self.upper)} > {_place(self.lower_rack, self.lower)}"


def _place(rack: str, end: End) -> str:
    return f"{rack}/{end.node}:{end.port}"


def cable_labels(fabric: Fabric, places: Mapping[str, str] | None = None) -> Iterator[Label]:
    """Yield a label per link, from servers, leaves and then spines, in order of device and port.

    Args:
        fabric: the designed fabric.
        places: rack and unit by device; default: the racks of the design.
    """
    racks = places or {device.name: device.rack for device in fabric.devices}
    lengths = {"leaf": fabric.demand.cables.server_m, "spine": fabric.demand.cables.spine_m}
    number = 0
    for role in ("server", "leaf", "spine"):
        for device in fabric.of_role(role):
            for port in device.interfaces:
                if TIERS[port.peer_role] > TIERS[device.role]:
                    number += 1
                    yield Label(
                        number=number,
                        lower=End(node=device.name, port=port.port),
                        upper=port.peer,
                        lower_rack=racks[device.name],
                        upper_rack=racks[port.peer.node],
                        speed_bits_per_s=port.speed_bits_per_s,
                        cable_m=lengths.get(port.peer_role, fabric.demand.cables.core_m),
                    )
