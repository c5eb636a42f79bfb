"""The networks of a machine: host VPCs with a way out and none in, and the VPCs of its GPU fabric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc, Plain
from gpuyard.provision.invariants.facts import Fabric
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.settings import Place

__all__ = ["PODS", "SERVICES", "Subnet", "Vpc", "network_requests", "subnets_of", "vpcs_of"]

HOST_MTU = 8896  # the most that a VPC takes (https://docs.cloud.google.com/vpc/docs/mtu, 2026-04)
PODS, SERVICES = "10.64.0.0/12", "10.48.0.0/20"  # of a GKE cluster; apart from every subnet below
FIRST_DATA = 16  # data subnets are 10.16.0.0/16 and up
SSH_TUNNEL = "35.235.240.0/20"  # Identity-Aware Proxy's own range
PROBES = ("130.211.0.0/22", "35.191.0.0/16")  # where Google's health checks come from


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet; one without a range is made by Google (bare metal)."""

    name: str
    range: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """A network and the NICs that lead to it."""

    name: str
    subnets: tuple[Subnet, ...]
    nic_type: str
    mtu_bytes: int | None = None
    profile: Annotated[str, Doc("network profile, e.g. us-central1-b-vpc-roce")] = ""
    has_exit: Annotated[bool, Doc("it has a NAT gateway, for images and packages")] = False
    is_given: Annotated[bool, Doc("it exists already")] = False

    @property
    def is_fabric(self) -> bool:
        """True of the network of data NICs."""
        return bool(self.profile) or "-data-" in self.name


def vpcs_of(place: Place, fabric: Fabric | None) -> tuple[Vpc, ...]:
    """The networks, the host's first; without a fabric there is only that one."""
    given = place.settings.network
    host_nic = "IDPF" if fabric is not None and "metal" in fabric.name else "GVNIC"
    host = Vpc(
        name=given or f"{place.name}-net-0",
        subnets=(Subnet(name=given or f"{place.name}-sub-0", range="10.0.0.0/16"),),
        nic_type="GVNIC" if fabric is None else host_nic,
        mtu_bytes=HOST_MTU,
        has_exit=True,
        is_given=bool(given),
    )
    if fabric is None:
        return (host,)
    more = tuple(
        Vpc(
            name=f"{place.name}-net-{index}",
            subnets=(Subnet(name=f"{place.name}-sub-{index}", range=f"10.{index}.0.0/16"),),
            nic_type=host_nic,
            mtu_bytes=HOST_MTU,
        )
        for index in range(1, fabric.host_nic_count)
    )
    return (host, *more, *_data(place, fabric))


def _data(place: Place, fabric: Fabric) -> Iterator[Vpc]:
    """The networks of the fabric: one with a profile and a subnet a NIC, or one a NIC."""
    ranges = [f"10.{FIRST_DATA + index}.0.0/16" for index in range(fabric.data_nic_count)]
    if not fabric.network_profile:
        for index, text in enumerate(ranges, start=1):
            subnet = Subnet(name=f"{place.name}-data-sub-{index}", range=text)
            yield Vpc(
                name=f"{place.name}-data-{index}", subnets=(subnet,), nic_type=fabric.data_nic_type,
                mtu_bytes=fabric.mtu_bytes,
            )  # fmt: skip
        return
    name = f"{place.name}-rdma"
    metal = fabric.network_profile.endswith("metal")
    made = (Subnet(name=f"default-subnet-1-{name}"),) * fabric.data_nic_count
    own = tuple(Subnet(name=f"{name}-sub-{index}", range=text) for index, text in enumerate(ranges))
    yield Vpc(
        name=name,
        subnets=made if metal else own,
        nic_type=fabric.data_nic_type,
        profile=f"{place.zone}-{fabric.network_profile}",
    )


def subnets_of(vpcs: tuple[Vpc, ...]) -> Iterator[tuple[Vpc, Subnet]]:
    """Every NIC of a machine: its network and its subnet, in order."""
    for vpc in vpcs:
        yield from ((vpc, subnet) for subnet in vpc.subnets)


def network_requests(
    place: Place, vpcs: tuple[Vpc, ...], *, pods: bool = False, port: int | None = None, apart: bool = False
) -> tuple[Request, ...]:
    """The requests that make the networks; `pods` adds the ranges of a GKE cluster, `port` lets health checks in.

    `apart`: the machines do not reach each other.
    """
    return tuple(
        request
        for number, vpc in enumerate(vpcs)
        if not vpc.is_given
        for request in _network(place, vpc, f"{10 + number}", pods=pods, port=port, apart=apart)
    )


def _file(place: Place, number: str, name: str) -> str:
    """The name of a request's file: its number, and what is its own in the resource's name."""
    return f"{number}-{name.removeprefix(place.name + '-')}.json"


def _network(place: Place, vpc: Vpc, number: str, *, pods: bool, port: int | None, apart: bool) -> Iterator[Request]:
    """One network with its subnets, rules and exit."""
    body: dict[str, Plain] = {
        "name": vpc.name,
        "description": place.stamp,
        "autoCreateSubnetworks": False,
        "routingConfig": {"routingMode": "REGIONAL"},
    }
    if vpc.profile:
        body["networkProfile"] = f"projects/{place.project}/global/networkProfiles/{vpc.profile}"
    elif vpc.mtu_bytes:
        body["mtu"] = vpc.mtu_bytes
    kind = "RoCE network" if vpc.profile else "data network" if vpc.is_fabric else "host network"
    yield Request(
        file=_file(place, number, vpc.name), what=f"{kind} {vpc.name}", method="compute.networks.insert",
        parameters={"project": place.project}, body=body, resource=vpc.name,
    )  # fmt: skip
    link = f"projects/{place.project}/global/networks/{vpc.name}"
    for subnet in vpc.subnets:
        if subnet.range:
            yield _subnet(place, subnet, link, number, pods=pods and vpc.has_exit)
    if vpc.profile:
        return  # a network with a RoCE profile takes no firewall rules
    yield from _rules(place, vpc, link, number, port if vpc.has_exit else None, apart=apart)
    if vpc.has_exit:
        yield _exit(place, vpc, link, number)


def _subnet(place: Place, subnet: Subnet, link: str, number: str, *, pods: bool) -> Request:
    """A subnet; machines without external addresses reach Google's APIs from it."""
    body: dict[str, Plain] = {
        "name": subnet.name,
        "description": place.stamp,
        "network": link,
        "ipCidrRange": subnet.range,
        "privateIpGoogleAccess": True,
    }
    if pods:
        body["secondaryIpRanges"] = [
            {"rangeName": "pods", "ipCidrRange": PODS},
            {"rangeName": "services", "ipCidrRange": SERVICES},
        ]
    return Request(
        file=_file(place, number, subnet.name), what=f"subnet {subnet.name}, {subnet.range}",
        method="compute.subnetworks.insert", parameters={"project": place.project, "region": place.region},
        body=body, resource=subnet.name,
    )  # fmt: skip


def _rules(place: Place, vpc: Vpc, link: str, number: str, port: int | None, *, apart: bool) -> Iterator[Request]:
    """Traffic inside, SSH through the tunnel of Google, and health checks: nothing from the internet."""
    inside: list[Plain] = [subnet.range for subnet in vpc.subnets]
    everything: list[Plain] = [{"IPProtocol": "tcp"}, {"IPProtocol": "udp"}, {"IPProtocol": "icmp"}]
    rules: list[tuple[str, list[Plain], list[Plain]]] = [] if apart else [("internal", inside, everything)]
    if vpc.has_exit:
        rules.append(("ssh", [SSH_TUNNEL], [{"IPProtocol": "tcp", "ports": ["22"]}]))
    if port is not None:
        rules.append(("probes", list(PROBES), [{"IPProtocol": "tcp", "ports": [str(port)]}]))
    for word, sources, allowed in rules:
        name = f"{vpc.name}-{word}"
        body: dict[str, Plain] = {
            "name": name, "description": place.stamp, "network": link, "direction": "INGRESS",
            "sourceRanges": sources, "allowed": allowed,
        }  # fmt: skip
        yield Request(
            file=_file(place, number, name), what=f"firewall rule {name}", method="compute.firewalls.insert",
            parameters={"project": place.project}, body=body, resource=name,
        )  # fmt: skip


def _exit(place: Place, vpc: Vpc, link: str, number: str) -> Request:
    """A router with NAT: machines reach registries, nobody reaches them."""
    name = f"{vpc.name}-nat"
    nat: dict[str, Plain] = {
        "name": name, "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    }  # fmt: skip
    return Request(
        file=_file(place, number, name), what=f"NAT gateway {name}", method="compute.routers.insert",
        parameters={"project": place.project, "region": place.region},
        body={"name": name, "description": place.stamp, "network": link, "nats": [nat]}, resource=name,
    )  # fmt: skip
