"""Device, port and rack names; numbers count from 1, padded for the fabric after growth."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.fabric.clos import Clos
from gpuyard.fabric.demand import Demand

PREFIXES = {"backend": "", "storage": "stor-", "frontend": "fe-", "management": "mgmt-"}
NICS = {"backend": "gpu", "storage": "stor", "frontend": "fe", "management": "bmc"}
SPINES_PER_RACK = 8  # spines and cores per rack; a chassis has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The naming scheme of one fabric."""

    prefix: str
    nics: str
    server_width: int
    stripe_width: int
    spine_width: int
    core_width: int
    single_leaf: bool
    pods: bool
    planes: bool
    servers_per_rack: int
    rails_per_leaf: int
    attached: tuple[str, ...]

    def server(self, number: int) -> str:
        return f"server-{number + 1:0{self.server_width}d}"

    def host(self, position: int) -> str:
        """The name of the host at a position: attached hosts first, then servers."""
        first = len(self.attached)
        return self.attached[position] if position < first else self.server(position - first)

    def nic(self, rail: int, plane: int) -> str:
        return f"{self.nics}{rail}_eth_p{plane}" if self.planes else f"{self.nics}{rail}_eth"

    def leaf(self, stripe: int, group: int, plane: int) -> str:
        first, last = group * self.rails_per_leaf + 1, (group + 1) * self.rails_per_leaf
        rails = f"r{first}" if first == last else f"r{first}to{last}"
        name = "1" if self.single_leaf else f"s{stripe + 1:0{self.stripe_width}d}-{rails}"
        return f"{self.prefix}leaf-{name}{self._plane(plane)}"

    def spine(self, pod: int, number: int, plane: int) -> str:
        group = f"g{pod + 1:0{self.stripe_width}d}-" if self.pods else ""
        return f"{self.prefix}spine-{group}{number + 1:0{self.spine_width}d}{self._plane(plane)}"

    def core(self, number: int, plane: int) -> str:
        return f"{self.prefix}core-{number + 1:0{self.core_width}d}{self._plane(plane)}"

    def _plane(self, plane: int) -> str:
        return f"-p{plane + 1}" if self.planes else ""

    def server_rack(self, number: int) -> str:
        return f"R{number // self.servers_per_rack + 1:0{self.server_width}d}"

    def host_rack(self, position: int) -> str:
        first = len(self.attached)
        if position >= first:
            return self.server_rack(position - first)
        return f"{self.prefix}A{position // self.servers_per_rack + 1}".upper()

    def leaf_rack(self, stripe: int) -> str:
        return f"{self.prefix}N{stripe + 1:0{self.stripe_width}d}".upper()

    def upper_rack(self, role: str, number: int, chassis: bool) -> str:
        rack = number if chassis else number // SPINES_PER_RACK
        return f"{self.prefix}{role[0]}{rack + 1:0{self.spine_width}d}".upper()


def names_for(demand: Demand, clos: Clos) -> Names:
    """Return the naming scheme of a fabric."""
    return Names(
        prefix=PREFIXES[demand.purpose],
        nics=NICS[demand.purpose],
        server_width=len(str(demand.final_count)),
        stripe_width=len(str(clos.final_stripes)),
        spine_width=len(str(max(1, clos.spines_per_pod))),
        core_width=len(str(max(1, clos.cores))),
        single_leaf=clos.single_leaf,
        pods=clos.tiers == 3,
        planes=demand.planes > 1,
        servers_per_rack=demand.servers_per_rack,
        rails_per_leaf=demand.rails_per_leaf,
        attached=tuple(name for hosts in demand.attached for name in hosts.host_names),
    )
