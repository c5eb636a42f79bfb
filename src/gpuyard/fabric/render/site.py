"""What a site adds to every switch: management network, users, time, logs and telemetry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Annotated

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.fabric.fabric import Fabric

# No switch boots with a password that anybody knows: until it is replaced, only keys work.
PASSWORD_PLACEHOLDER = "REPLACE-WITH-PASSWORD-HASH"

_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}")
_SSH_KEY = re.compile(
    r"(?:ssh-rsa|ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2}(?: [\w.@+-]+)?"
)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
# The address is written into boot scripts: no quotes, blanks or other characters of a shell.
_URL = re.compile(r"(?:https?|tftp)://[A-Za-z0-9._~:/%\[\]-]+")


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
    first_host: Annotated[int, AtLeast(1), Doc("number of the first switch in the prefix")] = 11
    admin: Annotated[str, Doc("name of the administrator on every switch")] = "netadmin"
    ssh_keys: Annotated[
        tuple[str, ...], Doc("public keys of the administrator, such as ssh-ed25519 AAAA…")
    ] = ()
    gnmi_port: Annotated[int, AtLeast(1)] = 9339
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
    """Raise InputError if a value is wrong, or the management network too small."""
    problems = [*_wrong_values(site), *_network_problems(site, fabric)]
    if problems:
        raise InputError(problems)


def _wrong_values(site: Site) -> Iterator[Problem]:
    """Yield the values that a configuration could not contain as they are."""
    texts = [
        ("admin", site.admin, _ACCOUNT, "write an account such as netadmin"),
        ("gnmi_certificate", site.gnmi_certificate, _NAME, "write a name such as gnmi"),
        *(
            ("ssh_keys", key, _SSH_KEY, "paste a line of ~/.ssh/id_ed25519.pub")
            for key in site.ssh_keys
        ),
        *(
            (name, server, _SERVER, "write an address or a host name")
            for name in ("ntp_servers", "syslog_servers", "dns_servers")
            for server in getattr(site, name)
        ),
        *(("macs", one.mac, _MAC, "write it like 02:00:00:00:00:01") for one in site.macs),
    ]
    if site.ztp_url:
        texts.append(("ztp_url", site.ztp_url, _URL, "write it like http://192.0.2.5"))
    for where, text, pattern, fix in texts:
        if not pattern.fullmatch(text):
            yield Problem(where=where, what=f'"{text[:60]}" has a wrong form', fix=fix)
    if site.gnmi_port > 65535:
        yield Problem(where="gnmi_port", what=f"{site.gnmi_port} is no port", fix="write 9339")


def _network_problems(site: Site, fabric: Fabric) -> Iterator[Problem]:
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
    gateway = _ipv4(site.gateway)
    if gateway is None or gateway not in network:
        yield Problem(
            where="gateway",
            what=f'"{site.gateway[:60]}" is not an address of {network}',
            fix=f"write {network.network_address + 1}",
        )
    elif 0 <= int(gateway) - int(network.network_address) - site.first_host < len(fabric.switches):
        yield Problem(
            where="gateway", what=f"{gateway} is the address of a switch", fix="change first_host"
        )
    unknown = sorted({one.switch for one in site.macs} - {one.name for one in fabric.switches})
    if unknown:
        yield Problem(
            where="macs", what=f"{unknown[0]} is not a switch", fix="use the names of the fabric"
        )


def _ipv4(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:
        return None
