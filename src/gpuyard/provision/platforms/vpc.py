"""VPC networks of a machine: host networks with NAT and no ingress, and its GPU fabric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.platforms.requests import Request

HOST_MTU = 8896  # maximum of a VPC (https://docs.cloud.google.com/vpc/docs/mtu, 2026-04)
# Ranges of a GKE cluster; they overlap no subnet below.
PODS = "10.64.0.0/12"
SERVICES = "10.48.0.0/20"
FIRST_DATA = 16  # data subnets are 10.16.0.0/16 and up
SSH_TUNNEL = "35.235.240.0/20"  # source range of Identity-Aware Proxy
# Proxies of the region's internal load balancers; /23 is what Google recommends
# (https://docs.cloud.google.com/load-balancing/docs/proxy-only-subnets).
PROXIES = "10.47.0.0/23"
PROBES = ("130.211.0.0/22", "35.191.0.0/16")  # source ranges of Google's health checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet; Google creates one without a range (bare metal)."""

    name: str
    range: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """A VPC network and the NICs connected to it."""

    name: str
    subnets: tuple[Subnet, ...]
    nic_type: str
    mtu_bytes: int | None = None
    profile: Annotated[str, Doc("network profile, e.g. us-central1-b-vpc-roce")] = ""
    has_nat: Annotated[bool, Doc("it has a NAT gateway, for images and packages")] = False
    already_exists: bool = False

    @property
    def is_fabric(self) -> bool:
        """Whether data NICs connect to it."""
        return bool(self.profile) or "-data-" in self.name


def vpcs_of(settings: ResolvedSettings, fabric: MachineFabric | None) -> tuple[Vpc, ...]:
    """Return the networks, the host's first; without a fabric it is the only one."""
    existing = settings.requested.network
    host_nic = "IDPF" if fabric is not None and "metal" in fabric.name else "GVNIC"
    host = Vpc(
        name=existing or f"{settings.name}-net-0",
        subnets=(Subnet(name=existing or f"{settings.name}-sub-0", range="10.0.0.0/16"),),
        nic_type=host_nic,
        mtu_bytes=HOST_MTU,
        has_nat=True,
        already_exists=bool(existing),
    )
    if fabric is None:
        return (host,)
    more = tuple(
        Vpc(
            name=f"{settings.name}-net-{index}",
            subnets=(Subnet(name=f"{settings.name}-sub-{index}", range=f"10.{index}.0.0/16"),),
            nic_type=host_nic,
            mtu_bytes=HOST_MTU,
        )
        for index in range(1, fabric.host_nic_count)
    )
    return (host, *more, *_data_vpcs(settings, fabric))


def _data_vpcs(settings: ResolvedSettings, fabric: MachineFabric) -> Iterator[Vpc]:
    # One network with a profile and a subnet per NIC, or one network per NIC.
    ranges = [f"10.{FIRST_DATA + index}.0.0/16" for index in range(fabric.data_nic_count)]
    if not fabric.network_profile:
        for index, text in enumerate(ranges, start=1):
            subnet = Subnet(name=f"{settings.name}-data-sub-{index}", range=text)
            yield Vpc(
                name=f"{settings.name}-data-{index}",
                subnets=(subnet,),
                nic_type=fabric.data_nic_type,
                mtu_bytes=fabric.mtu_bytes,
            )
        return
    name = f"{settings.name}-rdma"
    subnets = tuple(
        Subnet(name=f"{name}-sub-{index}", range=text) for index, text in enumerate(ranges)
    )
    if fabric.network_profile.endswith("metal"):
        subnets = (Subnet(name=f"default-subnet-1-{name}"),) * fabric.data_nic_count
    yield Vpc(
        name=name,
        subnets=subnets,
        nic_type=fabric.data_nic_type,
        profile=f"{settings.zone}-{fabric.network_profile}",
    )


def subnets_of(vpcs: tuple[Vpc, ...]) -> Iterator[tuple[Vpc, Subnet]]:
    """Yield the network and subnet of every NIC, in order."""
    for vpc in vpcs:
        yield from ((vpc, subnet) for subnet in vpc.subnets)


def network_requests(
    settings: ResolvedSettings,
    vpcs: tuple[Vpc, ...],
    *,
    pods: bool = False,
    port: int | None = None,
    isolated: bool = False,
) -> tuple[Request, ...]:
    """Return the requests that create the networks.

    `pods` adds the ranges of a GKE cluster, `port` admits health checks, and `isolated` machines
    cannot reach each other.
    """
    return tuple(
        request
        for number, vpc in enumerate(vpcs)
        if not vpc.already_exists
        for request in _network(
            settings, vpc, f"{10 + number}", pods=pods, port=port, isolated=isolated
        )
    )


def _file(settings: ResolvedSettings, number: str, name: str) -> str:
    return f"{number}-{name.removeprefix(settings.name + '-')}.json"


def _network(
    settings: ResolvedSettings,
    vpc: Vpc,
    number: str,
    *,
    pods: bool,
    port: int | None,
    isolated: bool,
) -> Iterator[Request]:
    body: dict[str, Plain] = {
        "name": vpc.name,
        "description": settings.labels_text,
        "autoCreateSubnetworks": False,
        "routingConfig": {"routingMode": "REGIONAL"},
    }
    if vpc.profile:
        body["networkProfile"] = f"projects/{settings.project}/global/networkProfiles/{vpc.profile}"
    elif vpc.mtu_bytes:
        body["mtu"] = vpc.mtu_bytes
    kind = "RoCE network" if vpc.profile else "data network" if vpc.is_fabric else "host network"
    yield Request(
        file=_file(settings, number, vpc.name),
        what=f"Create the {kind} {vpc.name}",
        method="compute.networks.insert",
        parameters={"project": settings.project},
        body=body,
        resource=vpc.name,
    )
    link = f"projects/{settings.project}/global/networks/{vpc.name}"
    for subnet in vpc.subnets:
        if subnet.range:
            yield _subnet(settings, subnet, link, number, pods=pods and vpc.has_nat)
    if vpc.profile:
        return  # a network with a RoCE profile supports no firewall rules
    yield from _rules(settings, vpc, link, number, port if vpc.has_nat else None, isolated=isolated)
    if vpc.has_nat:
        yield _nat(settings, vpc, link, number)


def _subnet(
    settings: ResolvedSettings, subnet: Subnet, link: str, number: str, *, pods: bool
) -> Request:
    # Private access lets machines without external addresses reach Google's APIs.
    body: dict[str, Plain] = {
        "name": subnet.name,
        "description": settings.labels_text,
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
        file=_file(settings, number, subnet.name),
        what=f"Create the subnet {subnet.name}, {subnet.range}",
        method="compute.subnetworks.insert",
        parameters={"project": settings.project, "region": settings.region},
        body=body,
        resource=subnet.name,
    )


def proxy_subnet(settings: ResolvedSettings, vpc: Vpc) -> Request:
    """Return the request for the proxy-only subnet of the load balancers of a region."""
    name = f"{settings.name}-proxies"
    return Request(
        file=_file(settings, "10", name),
        what=f"Create the proxy-only subnet {name}, {PROXIES}",
        method="compute.subnetworks.insert",
        parameters={"project": settings.project, "region": settings.region},
        body={
            "name": name,
            "description": settings.labels_text,
            "network": f"projects/{settings.project}/global/networks/{vpc.name}",
            "ipCidrRange": PROXIES,
            "purpose": "REGIONAL_MANAGED_PROXY",
            "role": "ACTIVE",
        },
        resource=name,
    )


def _rules(
    settings: ResolvedSettings,
    vpc: Vpc,
    link: str,
    number: str,
    port: int | None,
    *,
    isolated: bool,
) -> Iterator[Request]:
    # Internal traffic, SSH through Identity-Aware Proxy, health checks; nothing from the internet.
    inside: list[Plain] = [subnet.range for subnet in vpc.subnets]
    everything: list[Plain] = [{"IPProtocol": "tcp"}, {"IPProtocol": "udp"}, {"IPProtocol": "icmp"}]
    rules: list[tuple[str, list[Plain], list[Plain]]] = (
        [] if isolated else [("internal", inside, everything)]
    )
    if vpc.has_nat:
        rules.append(("ssh", [SSH_TUNNEL], [{"IPProtocol": "tcp", "ports": ["22"]}]))
    if port is not None:
        rules.append(("probes", list(PROBES), [{"IPProtocol": "tcp", "ports": [str(port)]}]))
    for suffix, sources, allowed in rules:
        name = f"{vpc.name}-{suffix}"
        body: dict[str, Plain] = {
            "name": name,
            "description": settings.labels_text,
            "network": link,
            "direction": "INGRESS",
            "sourceRanges": sources,
            "allowed": allowed,
        }
        yield Request(
            file=_file(settings, number, name),
            what=f"Create the firewall rule {name}",
            method="compute.firewalls.insert",
            parameters={"project": settings.project},
            body=body,
            resource=name,
        )


def _nat(settings: ResolvedSettings, vpc: Vpc, link: str, number: str) -> Request:
    name = f"{vpc.name}-nat"
    nat: dict[str, Plain] = {
        "name": name,
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    }
    return Request(
        file=_file(settings, number, name),
        what=f"Create the NAT gateway {name}",
        method="compute.routers.insert",
        parameters={"project": settings.project, "region": settings.region},
        body={"name": name, "description": settings.labels_text, "network": link, "nats": [nat]},
        resource=name,
    )
