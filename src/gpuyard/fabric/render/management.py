"""Management configuration of every switch, per OS; with the fabric's file the device is complete.

Each file is merged into the configuration: `load merge` on Junos, `config load` on SONiC,
`nv config patch` on Cumulus, `copy … running-config` on EOS and NX-OS. On plain Linux
the distribution's own tools configure management.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.site import PASSWORD_PLACEHOLDER, Site
from gpuyard.fabric.render.switch_os import File


def management_files(fabric: Fabric, site: Site) -> Iterator[File]:
    """Yield the management configuration of every switch."""
    system = fabric.demand.os or ""
    if system not in RENDERERS:
        return
    name, render = RENDERERS[system]
    for switch, address in site.addresses(fabric).items():
        text = render(switch, address, site)
        yield File(path=f"switches/{switch}/{name}", text=text)


def _junos(_switch: str, address: str, site: Site) -> str:
    vrf = "routing-instance mgmt_junos"
    instance = "routing-instances mgmt_junos routing-options"
    user = f"set system login user {site.admin}"
    grpc = "set system services extension-service request-response grpc"
    lines = [
        "set system management-instance",
        f"set interfaces re0:mgmt-0 unit 0 family inet address {address}/{site.network.prefixlen}",
        "set routing-instances mgmt_junos description management",
        f"set {instance} static route 0.0.0.0/0 next-hop {site.gateway}",
        f'set system root-authentication encrypted-password "{PASSWORD_PLACEHOLDER}"',
        f"{user} class super-user",
        f'{user} authentication encrypted-password "{PASSWORD_PLACEHOLDER}"',
        *(f'{user} authentication {_junos_key_type(key)} "{key}"' for key in site.ssh_keys),
        "set system services ssh root-login deny",
        "set system services netconf ssh",
        f"{grpc} ssl port {site.gnmi_port}",
        f"{grpc} ssl local-certificate {site.gnmi_certificate}",
        f"{grpc} {vrf}",
        *(f"set system name-server {server} {vrf}" for server in site.dns_servers),
        *(f"set system ntp server {server} {vrf}" for server in site.ntp_servers),
        *(f"set system syslog host {server} any notice" for server in site.syslog_servers),
        *(f"set system syslog host {server} {vrf}" for server in site.syslog_servers),
    ]
    return "\n".join(lines) + "\n"


def _junos_key_type(key: str) -> str:
    kind = key.partition(" ")[0]
    return "ssh-ecdsa" if kind.startswith("ecdsa-") else kind


def _sonic(_switch: str, address: str, site: Site) -> str:
    # Users and keys are not in the configuration database: ZTP or an image sets them.
    tables: dict[str, dict[str, dict[str, str]]] = {
        "MGMT_PORT": {"eth0": {"alias": "eth0", "admin_status": "up"}},
        "MGMT_VRF_CONFIG": {"vrf_global": {"mgmtVrfEnabled": "true"}},
        "MGMT_INTERFACE": {f"eth0|{address}/{site.network.prefixlen}": {"gwaddr": site.gateway}},
        "NTP": {"global": {"vrf": "mgmt", "src_intf": "eth0"}},
        "NTP_SERVER": {server: {"iburst": "on"} for server in site.ntp_servers},
        "SYSLOG_SERVER": {server: {"vrf": "mgmt"} for server in site.syslog_servers},
        "DNS_NAMESERVER": {server: {} for server in site.dns_servers},
        "GNMI": {
            "gnmi": {"port": str(site.gnmi_port), "client_auth": "true", "log_level": "2"},
            "certs": {
                "server_crt": f"/etc/sonic/telemetry/{site.gnmi_certificate}.crt",
                "server_key": f"/etc/sonic/telemetry/{site.gnmi_certificate}.key",
                "ca_crt": "/etc/sonic/telemetry/ca.crt",
            },
        },
    }
    return json.dumps({name: rows for name, rows in tables.items() if rows}, indent=2) + "\n"


def _cumulus(_switch: str, address: str, site: Site) -> str:
    def servers(kind: str, addresses: tuple[str, ...], in_vrf: bool) -> str:
        if not addresses:
            return ""
        vrf = ":\n            vrf: mgmt\n" if in_vrf else ": {}\n"
        rows = "".join(f"          {one}{vrf}" for one in addresses)
        return f"      {kind}:\n        server:\n{rows}"

    keys = "".join(
        f"            key-{number}:\n              key: {key.split()[1]}\n"
        f"              type: {key.split()[0]}\n"
        for number, key in enumerate(site.ssh_keys, start=1)
    )
    ssh = f"          ssh:\n            authorized-key:\n{_indent(keys)}" if keys else ""
    return f"""\
- set:
    interface:
      eth0:
        type: eth
        ip:
          address:
            {address}/{site.network.prefixlen}: {{}}
          gateway:
            {site.gateway}: {{}}
          vrf: mgmt
    system:
      aaa:
        user:
          {site.admin}:
            role: system-admin
            hashed-password: '{PASSWORD_PLACEHOLDER}'
{_indent(ssh)}\
{servers("ntp", site.ntp_servers, False)}\
        vrf: mgmt
{servers("syslog", site.syslog_servers, True)}\
{servers("dns", site.dns_servers, True)}\
      gnmi-server:
        listening-address:
          {address}: {{}}
        port: {site.gnmi_port}
        certificate: {site.gnmi_certificate}
        state: enabled
"""


def _indent(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _eos(_switch: str, address: str, site: Site) -> str:
    user = f"username {site.admin}"
    lines = [
        "vrf instance MGMT",
        "!",
        "interface Management1",
        "   vrf MGMT",
        f"   ip address {address}/{site.network.prefixlen}",
        "!",
        f"ip route vrf MGMT 0.0.0.0/0 {site.gateway}",
        *(f"ip name-server vrf MGMT {server}" for server in site.dns_servers),
        *(f"ntp server vrf MGMT {server}" for server in site.ntp_servers),
        *(f"logging vrf MGMT host {server}" for server in site.syslog_servers),
        "no aaa root",
        f"{user} privilege 15 role network-admin secret sha512 {PASSWORD_PLACEHOLDER}",
        *(f"{user} ssh-key {key}" for key in site.ssh_keys),
        "!",
        "management api gnmi",
        "   transport grpc default",
        f"      ssl profile {site.gnmi_certificate}",
        f"      port {site.gnmi_port}",
        "      vrf MGMT",
        "!",
        "management ssh",
        "   vrf MGMT",
        "      no shutdown",
        "!",
    ]
    return "\n".join(lines) + "\n"


def _nxos(_switch: str, address: str, site: Site) -> str:
    user = f"username {site.admin}"
    lines = [
        "feature grpc",
        "feature openconfig",
        "vrf context management",
        f"  ip route 0.0.0.0/0 {site.gateway}",
        *(f"  ip name-server {server}" for server in site.dns_servers),
        "interface mgmt0",
        "  vrf member management",
        f"  ip address {address}/{site.network.prefixlen}",
        *(f"ntp server {server} use-vrf management" for server in site.ntp_servers),
        *(f"logging server {server} 5 use-vrf management" for server in site.syslog_servers),
        f"{user} password 5 {PASSWORD_PLACEHOLDER} role network-admin",
        *(f"{user} sshkey {key}" for key in site.ssh_keys),
        f"grpc port {site.gnmi_port}",
        f"grpc certificate {site.gnmi_certificate}",
    ]
    return "\n".join(lines) + "\n"


RENDERERS: dict[str, tuple[str, Callable[[str, str, Site], str]]] = {
    "junos": ("management.conf", _junos),
    "sonic": ("management.json", _sonic),
    "cumulus": ("management.yaml", _cumulus),
    "eos": ("management.cfg", _eos),
    "nxos": ("management.cfg", _nxos),
}
