"""config_db.json: the device, its ports, addresses and tenants. Routing is in frr.conf (split-unified mode)."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.render.files import File
from gpuyard.fabric.render.frr import frr_conf
from gpuyard.fabric.render.sessions import cable_lengths, vrfs_of
from gpuyard.fabric.render.sonic.qos import ars_tables, qos_tables
from gpuyard.fabric.render.sonic.tables import Rows, row, table, tables

__all__ = ["Sonic"]

TYPES = {"leaf": "ToRRouter", "spine": "LeafRouter", "core": "SpineRouter"}
VRF_PREFIX = "Vrf"  # SONiC takes only names that begin so
FIRST_VLAN = 1001  # each VNI wants a VLAN behind it, which no port is a member of
FEC_FROM_BITS_PER_S = 100e9


class Sonic:
    """SONiC. PORT rows go over those of the platform's own SKU, which knows the lanes."""

    def render(self, fabric: Fabric) -> Iterator[File]:
        """config_db.json and frr.conf of every switch."""
        switches = by_name(fabric.switches)
        cables = cable_lengths(fabric.topology, switches)
        for device in switches.values():
            parts = [*_device(device), *_ports(device), *_addresses(device), *_tenants(fabric, device)]
            if fabric.lossless.pfc.priorities:
                parts += qos_tables(fabric, device, cables)
            parts += ars_tables(fabric, device)
            folder = f"switches/{device.name}"
            yield File(path=f"{folder}/config_db.json", text=tables(parts))
            routing = frr_conf(fabric, device, switches, addresses=False, loopback="Loopback0", vrf_prefix=VRF_PREFIX)
            yield File(path=f"{folder}/frr.conf", text=routing)


def _device(device: Device) -> Iterator[str]:
    """Who it is."""
    yield table("DEVICE_METADATA", [(
        "localhost",
        row("hostname", device.name, "bgp_asn", str(device.asn), "type", TYPES[device.role],
            "docker_routing_config_mode", "split-unified", "buffer_model", "traditional",
            "default_pfcwd_status", "disable"),  # the watchdog is set port by port below
    )])  # fmt: skip
    yield table("DEVICE_NEIGHBOR", (
        (port.port, row("name", port.peer.node, "port", port.peer.port)) for port in device.interfaces
    ))  # fmt: skip


def _ports(device: Device) -> Iterator[str]:
    """Speed, size of frames and where the cable goes."""
    yield table("PORT", (
        (port.port,
         row("admin_status", "up", "speed", str(round(port.speed_bits_per_s / 1e6)), "mtu", str(port.mtu_bytes),
             "fec", "rs" if port.speed_bits_per_s >= FEC_FROM_BITS_PER_S else "none",
             "description", port.description))
        for port in device.interfaces
    ))  # fmt: skip


def _addresses(device: Device) -> Iterator[str]:
    """The loopback, and the addresses of the links; without them, link-local IPv6."""
    yield table("LOOPBACK_INTERFACE", [("Loopback0", "{}"), (f"Loopback0|{device.loopback}/32", "{}")])
    yield table("INTERFACE", _interface_rows(device))


def _interface_rows(device: Device) -> Rows:
    """A row for each routed port, and one for each of its addresses."""
    for port in device.interfaces:
        if port.address is None:
            yield port.port, row("ipv6_use_link_local_only", "enable")
            continue
        yield port.port, row("vrf_name", VRF_PREFIX + port.vrf) if port.vrf else "{}"
        yield f"{port.port}|{port.address}", "{}"


def _tenants(fabric: Fabric, device: Device) -> Iterator[str]:
    """VRFs, and the VXLAN tunnel that joins them."""
    numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
    here = {name: (numbers[name], FIRST_VLAN + index) for index, name in enumerate(vrfs_of(fabric, device))}
    if not here:
        return
    yield table("VRF", ((VRF_PREFIX + name, row("vni", str(vni))) for name, (vni, _) in here.items()))
    yield table("VLAN", ((f"Vlan{vlan}", row("vlanid", str(vlan))) for _, vlan in here.values()))
    yield table("VLAN_INTERFACE", (
        (f"Vlan{vlan}", row("vrf_name", VRF_PREFIX + name)) for name, (_, vlan) in here.items()
    ))  # fmt: skip
    yield table("VXLAN_TUNNEL", [("vtep", row("src_ip", device.loopback or ""))])
    yield table("VXLAN_EVPN_NVO", [("nvo", row("source_vtep", "vtep"))])
    yield table("VXLAN_TUNNEL_MAP", (
        (f"vtep|map_{vni}_Vlan{vlan}", row("vlan", f"Vlan{vlan}", "vni", str(vni))) for vni, vlan in here.values()
    ))  # fmt: skip
