"""SONiC's config_db.json: device, ports, addresses and tenants; routing is in frr.conf."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric, by_name
from gpuyard.fabric.render.frr.frr_conf import frr_conf
from gpuyard.fabric.render.sessions import cable_lengths, vrfs_of
from gpuyard.fabric.render.sonic.config_db_tables import Rows, row, table, tables
from gpuyard.fabric.render.sonic.qos import ars_tables, qos_tables
from gpuyard.fabric.render.switch_os import File

TYPES = {"leaf": "ToRRouter", "spine": "LeafRouter", "core": "SpineRouter"}
VRF_PREFIX = "Vrf"  # SONiC requires this prefix
FIRST_VLAN = 1001  # each VNI needs a VLAN, which has no member ports
FEC_FROM_BITS_PER_S = 100e9


def render_sonic(fabric: Fabric) -> Iterator[File]:
    """Yield config_db.json and frr.conf of every switch.

    PORT rows extend those of the platform's own SKU, which knows the lanes.
    """
    switches = by_name(fabric.switches)
    cables = cable_lengths(fabric.topology, switches)
    for device in switches.values():
        parts = [
            *_device(device),
            *_ports(device),
            *_addresses(device),
            *_tenants(fabric, device),
        ]
        if fabric.lossless.pfc.priorities:
            parts += qos_tables(fabric, device, cables)
        parts += ars_tables(fabric, device)
        folder = f"switches/{device.name}"
        yield File(path=f"{folder}/config_db.json", text=tables(parts))
        routing = frr_conf(
            fabric,
            device,
            switches,
            addresses=False,
            loopback="Loopback0",
            vrf_prefix=VRF_PREFIX,
            os="sonic",
        )
        yield File(path=f"{folder}/frr.conf", text=routing)


def _device(device: Device) -> Iterator[str]:
    yield table(
        "DEVICE_METADATA",
        [
            (
                "localhost",
                row(
                    "hostname",
                    device.name,
                    "bgp_asn",
                    str(device.asn),
                    "type",
                    TYPES[device.role],
                    "docker_routing_config_mode",
                    "split-unified",
                    "buffer_model",
                    "traditional",
                    "default_pfcwd_status",
                    "disable",
                ),  # the watchdog is configured per port
            )
        ],
    )
    yield table(
        "DEVICE_NEIGHBOR",
        (
            (port.port, row("name", port.peer.node, "port", port.peer.port))
            for port in device.interfaces
        ),
    )


def _ports(device: Device) -> Iterator[str]:
    yield table(
        "PORT",
        (
            (
                port.port,
                row(
                    "admin_status",
                    "up",
                    "speed",
                    str(round(port.speed_bits_per_s / 1e6)),
                    "mtu",
                    str(port.mtu_bytes),
                    "fec",
                    "rs" if port.speed_bits_per_s >= FEC_FROM_BITS_PER_S else "none",
                    "description",
                    port.description,
                ),
            )
            for port in device.interfaces
        ),
    )


def _addresses(device: Device) -> Iterator[str]:
    yield table(
        "LOOPBACK_INTERFACE", [("Loopback0", "{}"), (f"Loopback0|{device.loopback}/32", "{}")]
    )
    yield table("INTERFACE", _interface_rows(device))


def _interface_rows(device: Device) -> Rows:
    for port in device.interfaces:
        if port.address is None:
            yield port.port, row("ipv6_use_link_local_only", "enable")
            continue
        yield port.port, row("vrf_name", VRF_PREFIX + port.vrf) if port.vrf else "{}"
        yield f"{port.port}|{port.address}", "{}"


def _tenants(fabric: Fabric, device: Device) -> Iterator[str]:
    numbers = {vrf.name: vrf.vni for vrf in fabric.vrfs}
    here = {
        name: (numbers[name], FIRST_VLAN + index)
        for index, name in enumerate(vrfs_of(fabric, device))
    }
    if not here:
        return
    yield table(
        "VRF", ((VRF_PREFIX + name, row("vni", str(vni))) for name, (vni, _) in here.items())
    )
    yield table("VLAN", ((f"Vlan{vlan}", row("vlanid", str(vlan))) for _, vlan in here.values()))
    yield table(
        "VLAN_INTERFACE",
        ((f"Vlan{vlan}", row("vrf_name", VRF_PREFIX + name)) for name, (_, vlan) in here.items()),
    )
    yield table("VXLAN_TUNNEL", [("vtep", row("src_ip", device.loopback or ""))])
    yield table("VXLAN_EVPN_NVO", [("nvo", row("source_vtep", "vtep"))])
    yield table(
        "VXLAN_TUNNEL_MAP",
        (
            (f"vtep|map_{vni}_Vlan{vlan}", row("vlan", f"Vlan{vlan}", "vni", str(vni)))
            for vni, vlan in here.values()
        ),
    )
