"""What a site adds to every switch: management network, users, time, logs and telemetry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, Problem
from gpuyard.fabric.fabric import Fabric

# No switch boots with a password that anybody knows: until it is replaced, only keys work.
PASSWORD_PLACEHOLDER = "REPLACE-WITH-PASSWORD-HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementPort:
    """The MAC address of the management port of a switch, for DHCP."""

    switch: str
    mac: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The services of a site, for `gpuyard fabric render --site FILE`."""

    management_prefix: Annotated[str, Doc("IPv4 prefix of the management network")]
    gateway: Annotated[str, Doc("in that prefix")]
    ntp_servers: tuple[str, ...]
    syslog_servers: tuple[str, ...] = ()
    dns_servers: tuple[str, ...] = ()
    first_host: Annotated[int, Doc("number of the first switch in the prefix")] = 11
    admin: Annotated[str, Doc("name of the administrator on every switch")] = "netadmin"
    ssh_keys: Annotated[
        tuple[str, ...], Doc("public keys of the administrator, such as ssh-ed25519 AAAA…")
    ] = ()
    gnmi_port: int = 9339
    gnmi_certificate: Annotated[str, Doc("name under which it is installed on the switch")] = "gnmi"
    ztp_url: Annotated[str, Doc("where switches fetch their files; empty: no ZTP bundle")] = ""
    macs: tuple[ManagementPort, ...] = ()

    @property
    def network(self) -> IPv4Network:
        """The management network."""
        network = ip_network(self.management_prefix)
        assert isinstance(network, IPv4Network)
        return network

    def mac(self, switch: str) -> str | None:
        return next((one.mac for one in self.macs if one.switch == switch), None)

    def addresses(self, fabric: Fabric) -> dict[str, str]:
        """Return the management address of every switch, in the order of the fabric."""
        first = int(self.network.network_address) + self.first_host
        return {
            device.name: str(IPv4Address(first + index))
            for index, device in enumerate(fabric.switches)
        }


def check_site(site: Site, fabric: Fabric) -> None:
    """Raise InputError if the management network is wrong or too small for the switches."""
    problems = list(_problems(site, fabric))
    if problems:
        raise InputError(problems)


def _problems(site: Site, fabric: Fabric) -> Iterator[Problem]:
    try:
        network = ip_network(site.management_prefix)
    except ValueError as error:
        yield Problem(where="management_prefix", what=str(error), fix="write 192.0.2.0/24")
        return
    if not isinstance(network, IPv4Network):
        yield Problem(where="management_prefix", what="is not IPv4", fix="write 192.0.2.0/24")
        return
    last = site.first_host + len(fabric.switches) - 1
    if last >= network.num_addresses - 1:
        yield Problem(
            where="management_prefix",
            what=f"{network} has no host {last}, and there are {len(fabric.switches)} switches",
            fix="use a larger prefix, or a lower first_host",
        )
    unknown = sorted({one.switch for one in site.macs} - {one.name for one in fabric.switches})
    if unknown:
        yield Problem(
            where="macs", what=f"{unknown[0]} is not a switch", fix="use the names of the fabric"
        )
