"""netplan: an address for each NIC, and a routing table of its own, so that a rail's answer leaves by its rail."""

from __future__ import annotations

from gpuyard.fabric.fabric import Device, Fabric, Interface

__all__ = ["netplan"]

FIRST_TABLE = 101


def netplan(fabric: Fabric, device: Device) -> str:
    """The file for one server; NICs are already named as the fabric names them."""
    parts = ["network:\n  version: 2\n  renderer: networkd\n  ethernets:\n"]
    numbered = [port for port in device.interfaces if port.address]
    parts += [_nic(fabric, port, FIRST_TABLE + index) for index, port in enumerate(numbered)]
    return "".join(parts)


def _nic(fabric: Fabric, port: Interface, table: int) -> str:
    """One NIC: everything sent from its address goes to its own leaf."""
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
