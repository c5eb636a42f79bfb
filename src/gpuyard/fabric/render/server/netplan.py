"""netplan: an address and a separate routing table per NIC, so that replies stay on their rail."""

from __future__ import annotations

from gpuyard.fabric.fabric import Device, Fabric, Interface

FIRST_TABLE = 101


def netplan(fabric: Fabric, device: Device) -> str:
    """Return the netplan file of one server; its NICs already have the fabric's names."""
    parts = ["network:\n  version: 2\n  renderer: networkd\n  ethernets:\n"]
    numbered = [port for port in device.interfaces if port.address]
    parts += [_nic(fabric, port, FIRST_TABLE + index) for index, port in enumerate(numbered)]
    return "".join(parts)


def _nic(fabric: Fabric, port: Interface, table: int) -> str:
    address = (port.address or "").partition("/")[0]
    return f"""\
    {port.port}:
      mtu: {fabric.routing.host_mtu_bytes}
      dhcp4: false
      dhcp6: false
      accept-ra: false
      addresses: [{port.address}]
      routes:
        - {{to: 0.0.0.0/0, via: {port.peer_address}, table: {table}}}
      routing-policy:
        - {{from: {address}/32, table: {table}}}
"""
