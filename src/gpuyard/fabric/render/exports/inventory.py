"""Inventories for Ansible and Nornir, and a netlab topology."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File
from gpuyard.topology.links import End

# Ansible's connection variables and Nornir's platform (NAPALM's or Netmiko's name) per switch OS.
ANSIBLE = {
    "junos": {
        "ansible_connection": "ansible.netcommon.netconf",
        "ansible_network_os": "junipernetworks.junos.junos",
    },
    "eos": {
        "ansible_connection": "ansible.netcommon.network_cli",
        "ansible_network_os": "arista.eos.eos",
    },
    "nxos": {
        "ansible_connection": "ansible.netcommon.network_cli",
        "ansible_network_os": "cisco.nxos.nxos",
    },
    "cumulus": {"ansible_connection": "ssh"},
    "sonic": {"ansible_connection": "ssh"},
    "frr": {"ansible_connection": "ssh"},
}
PLATFORMS = {
    "junos": "junos",
    "eos": "eos",
    "nxos": "nxos_ssh",
    "cumulus": "linux",
    "sonic": "linux",
    "frr": "linux",
}
NETLAB = {
    "junos": "vjunos-switch",
    "eos": "eos",
    "nxos": "nxos",
    "cumulus": "cumulus_nvue",
    "sonic": "sonic",
    "frr": "frr",
}
NETLAB_NAME_CHARS = 16


def ansible_files(fabric: Fabric, site: Site | None, _catalog: Catalog) -> Iterator[File]:
    """Yield an Ansible inventory and the same for Nornir; JSON is YAML."""
    addresses = site.addresses(fabric) if site is not None else {}
    system = fabric.demand.os or "linux"
    groups: dict[str, dict[str, object]] = {}
    hosts: dict[str, object] = {}
    for device in fabric.switches:
        facts = {
            "ansible_host": addresses.get(device.name, device.loopback),
            "asn": device.asn,
            "loopback": device.loopback,
            "rack": device.rack,
            "configuration": f"switches/{device.name}",
        }
        group = groups.setdefault(device.role, {"hosts": {}})
        hosts_of_group = group["hosts"]
        assert isinstance(hosts_of_group, dict)
        hosts_of_group[device.name] = facts
        hosts[device.name] = {
            "hostname": facts["ansible_host"],
            "platform": PLATFORMS.get(system, "linux"),
            "groups": [device.role],
            "data": {key: value for key, value in facts.items() if key != "ansible_host"},
        }
    variables: dict[str, object] = dict(ANSIBLE.get(system, {}))
    if site is not None:
        variables["ansible_user"] = site.admin
    inventory = {"all": {"vars": variables, "children": groups}}
    yield _yaml("ansible/inventory.yml", inventory)
    yield _yaml("nornir/hosts.yaml", hosts)
    yield _yaml("nornir/groups.yaml", {role: {} for role in groups})
    yield _yaml("nornir/defaults.yaml", {"username": site.admin} if site is not None else {})


def netlab_files(fabric: Fabric, _site: Site | None, _catalog: Catalog) -> Iterator[File]:
    """Yield a netlab topology with the fabric's own addresses, AS numbers and links."""
    long = [node.name for node in fabric.devices if len(node.name) > NETLAB_NAME_CHARS]
    if long:
        raise InputError.one(
            "netlab",
            f"the name {long[0]} is longer than {NETLAB_NAME_CHARS} characters",
            "export a smaller fabric of the same shape",
        )
    addresses = {
        (device.name, port.port): port.address
        for device in fabric.devices
        for port in device.interfaces
    }
    nodes: dict[str, object] = {
        device.name: {
            "device": NETLAB.get(fabric.demand.os or "", "frr"),
            "module": ["bgp", "bfd"],
            "bgp": {"as": device.asn},
            "loopback": {"ipv4": f"{device.loopback}/32"},
        }
        for device in fabric.switches
    }
    nodes |= {device.name: {"device": "linux"} for device in fabric.servers}
    links = [
        {
            "interfaces": [_end(end, addresses) for end in link.ends],
            "mtu": fabric.routing.ip_mtu_bytes,
        }
        for link in fabric.topology.links
    ]
    topology = {"provider": "clab", "nodes": nodes, "links": links}
    yield _yaml("netlab/topology.yml", topology)


def _end(end: End, addresses: dict[tuple[str, str], str | None]) -> dict[str, object]:
    address = addresses.get((end.node, end.port))
    return {"node": end.node, "ipv4": True if address is None else address}


def _yaml(path: str, value: object) -> File:
    # JSON is valid YAML, and needs no library to write.
    return File(path=path, text=json.dumps(value, indent=2) + "\n")
