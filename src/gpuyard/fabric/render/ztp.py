"""Zero-touch provisioning: a DHCP server's reservations, and the boot script of every OS."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File

# DHCP option with the address of the boot file: 67 is the standard's, 239 that of Cumulus.
OPTIONS = {"junos": 67, "eos": 67, "nxos": 67, "cumulus": 239, "sonic": 67}
SERVER_OPTION = 66  # NX-OS takes the server from it, and the path there from option 67


def ztp_files(fabric: Fabric, site: Site) -> Iterator[File]:
    """Yield Kea's DHCP configuration and a boot script per switch; nothing without a URL."""
    system = fabric.demand.os or ""
    if not site.ztp_url or system not in OPTIONS:
        return
    addresses = site.addresses(fabric)
    yield File(path="ztp/kea-dhcp4.json", text=_kea(system, site, addresses))
    for name in addresses:
        yield File(path=f"ztp/{name}/{_boot_name(system)}", text=_boot(system, site, name))


def _kea(system: str, site: Site, addresses: dict[str, str]) -> str:
    option = OPTIONS[system]
    reservations = []
    base = site.ztp_url.rstrip("/")
    for name, address in addresses.items():
        path = f"ztp/{name}/{_boot_name(system)}"
        identity = {"hw-address": site.mac(name) or f"REPLACE-WITH-MAC-OF-{name}"}
        data: list[dict[str, object]] = [{"code": option, "data": f"{base}/{path}"}]
        if system == "nxos":
            data = [{"code": option, "data": path}, {"code": SERVER_OPTION, "data": base}]
        reservations.append(
            {**identity, "ip-address": address, "hostname": name, "option-data": data}
        )
    options = [{"name": "routers", "data": site.gateway}]
    if site.dns_servers:
        options.append({"name": "domain-name-servers", "data": ", ".join(site.dns_servers)})
    if site.ntp_servers:
        options.append({"name": "ntp-servers", "data": ", ".join(site.ntp_servers)})
    subnet = {
        "id": 1,
        "subnet": str(site.network),
        "option-data": options,
        "reservations": reservations,
    }
    definitions = (
        [{"name": "ztp-url", "code": 239, "space": "dhcp4", "type": "string"}]
        if option == 239
        else []
    )
    return json.dumps({"Dhcp4": {"option-def": definitions, "subnet4": [subnet]}}, indent=2) + "\n"


def _boot_name(system: str) -> str:
    return {"sonic": "ztp.json", "nxos": "poap.py"}.get(system, "boot.sh")


def _boot(system: str, site: Site, name: str) -> str:
    base = f"{site.ztp_url.rstrip('/')}/switches/{name}"
    if system == "sonic":
        routing = {"source": f"{base}/frr.conf", "destination": "/etc/sonic/frr/frr.conf"}
        database = {"destination": "/etc/sonic/config_db.json"}
        steps = {
            "01-download": {"files": [{"url": routing}]},
            "02-configdb-json": {"url": {"source": f"{base}/config_db.json", **database}},
            "03-configdb-json": {
                "clear-config": False,  # merge
                "url": {"source": f"{base}/management.json", **database},
            },
        }
        return json.dumps({"ztp": steps}, indent=2) + "\n"
    if system == "nxos":
        return _poap(base)
    loads = "load set /var/tmp/fabric.set; load set /var/tmp/management.set"
    lines = {
        "junos": (
            "#!/bin/sh",
            f"fetch -o /var/tmp/fabric.set {base}/junos.conf",
            f"fetch -o /var/tmp/management.set {base}/management.conf",
            f'cli -c "configure; {loads}; commit and-quit"',
        ),
        "eos": (
            "#!/usr/bin/Cli -p2",
            f"copy {base}/eos.cfg flash:startup-config",
            "configure",
            f"copy {base}/management.cfg running-config",
            "copy running-config startup-config",
        ),
        "cumulus": (
            "#!/bin/bash",
            "# CUMULUS-AUTOPROVISIONING",
            "set -e",
            f"curl -fsS -o /tmp/startup.yaml {base}/startup.yaml",
            f"curl -fsS -o /tmp/management.yaml {base}/management.yaml",
            "nv config replace /tmp/startup.yaml",
            "nv config patch /tmp/management.yaml",
            "nv config apply --assume-yes",
            "nv config save",
        ),
    }[system]
    return "\n".join(lines) + "\n"


def _poap(base: str) -> str:
    """Return a script for PowerOn Auto Provisioning, which checks the sum of its other lines."""
    first = "#!/bin/env python3\n"
    rest = f"""\
from cli import cli

with open("/bootflash/poap.cfg", "w") as merged:
    for url in (
        "{base}/nxos.cfg",
        "{base}/management.cfg",
    ):
        name = url.rsplit("/", 1)[1]
        cli(f"terminal dont-ask ; copy {{url}} bootflash:{{name}} vrf management")
        with open("/bootflash/" + name) as part:
            merged.write(part.read())
cli("copy bootflash:poap.cfg scheduled-config")  # applied after the reboot that POAP does
"""
    digest = hashlib.md5((first + rest).encode(), usedforsecurity=False).hexdigest()
    return f'{first}#md5sum="{digest}"\n{rest}'
