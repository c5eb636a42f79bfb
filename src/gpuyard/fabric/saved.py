"""A fabric as JSON and back. Devices and interfaces are saved in columns, and texts that recur are saved once."""

from __future__ import annotations

import json
from typing import TypeVar

from gpuyard.document import Plain, load_json, plain
from gpuyard.errors import InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fabric import Device, Fabric, Interface, Rejected, Vrf
from gpuyard.fabric.lossless import Lossless
from gpuyard.fabric.routing import Routing
from gpuyard.fabric.size import Size
from gpuyard.topology import End, from_plain, to_plain
from gpuyard.topology.tables import INDEX, NUMBER, TEXT, WHOLE, Column, Reader, Values, table_of

__all__ = ["FORMAT", "from_json", "to_json"]

FORMAT = "gpuyard-fabric-1"
T = TypeVar("T")

DEVICES = (
    Column(name="name", kind=TEXT),
    Column(name="role", kind=TEXT),
    Column(name="interface_count", kind=WHOLE),
    Column(name="model", kind=TEXT, optional=True),
    Column(name="os", kind=TEXT, optional=True),
    Column(name="asn", kind=WHOLE, optional=True),
    Column(name="loopback", kind=TEXT, optional=True),
    Column(name="stripe", kind=WHOLE, optional=True),
    Column(name="rail", kind=WHOLE, optional=True),
    Column(name="plane", kind=WHOLE, optional=True),
    Column(name="rack", kind=TEXT),
)
INTERFACES = (  # of the devices in their order
    Column(name="port", kind=INDEX, into="port_names"),
    Column(name="peer", kind=INDEX, into="devices"),
    Column(name="peer_port", kind=INDEX, into="port_names"),
    Column(name="speed_bits_per_s", kind=NUMBER),
    Column(name="mtu_bytes", kind=WHOLE),
    Column(name="peer_asn", kind=WHOLE, optional=True),
    Column(name="address", kind=TEXT, optional=True),
    Column(name="peer_address", kind=TEXT, optional=True),
    Column(name="vrf", kind=TEXT, optional=True),
    Column(name="rail", kind=WHOLE, optional=True),
    Column(name="plane", kind=WHOLE),
)
VALUES = ("demand", "size", "routing", "lossless")
LISTS = ("vrfs", "reasons", "limits", "rejected")
KEYS = ("format", *VALUES, *LISTS, "prefixes", "topology", "devices", "port_names", "interfaces")


def to_json(fabric: Fabric) -> str:
    """The fabric as JSON text; equal fabrics give the same bytes."""
    position = {device.name: index for index, device in enumerate(fabric.devices)}
    names: dict[str, int] = {}
    devices: list[tuple[Plain, ...]] = []
    interfaces: list[tuple[Plain, ...]] = []
    for device in fabric.devices:
        devices.append((
            device.name, device.role, len(device.interfaces), device.model, device.os, device.asn, device.loopback,
            device.stripe, device.rail, device.plane, device.rack,
        ))  # fmt: skip
        interfaces += [
            (names.setdefault(port.port, len(names)), position[port.peer.node],
             names.setdefault(port.peer.port, len(names)), port.speed_bits_per_s, port.mtu_bytes, port.peer_asn,
             port.address, port.peer_address, port.vrf, port.rail, port.plane)
            for port in device.interfaces
        ]  # fmt: skip
    saved: dict[str, Plain] = {"format": FORMAT}
    saved |= {key: plain(getattr(fabric, key)) for key in (*VALUES, *LISTS)}
    prefixes: dict[str, Plain] = {device.name: list(device.prefixes) for device in fabric.devices if device.prefixes}
    saved |= {
        "prefixes": prefixes,
        "topology": dict(to_plain(fabric.topology)),
        "devices": table_of(DEVICES, devices),
        "port_names": list(names),
        "interfaces": table_of(INTERFACES, interfaces),
    }
    return json.dumps(saved, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, file: str = "<json>") -> Fabric:
    """The fabric that `to_json` wrote; InputError with the place of everything wrong if it is none."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise InputError.one(file, f"not JSON: {error}", "mend the syntax") from None
    reader = Reader(file)
    fields = reader.record(data, KEYS, optional=(), what=f'a fabric saved as "{FORMAT}"')
    if fields.get("format", FORMAT) != FORMAT:
        reader.wrong("format", f"not {FORMAT}", f'save it again, with "format": "{FORMAT}"')
    if reader.problems:
        raise InputError(reader.problems)
    names = reader.column(fields["port_names"], Column(name="port_names", kind=TEXT), "port_names")
    devices = reader.table(fields["devices"], DEVICES, "devices")
    interfaces = reader.table(fields["interfaces"], INTERFACES, "interfaces")
    if not reader.problems and sum(devices[2]) != len(interfaces[0]):
        reader.wrong("devices.interface_count", "does not add up to the interfaces", "save the fabric again")
    if reader.problems:
        raise InputError(reader.problems)
    return Fabric(
        demand=_value(fields, "demand", Demand, file),
        size=_value(fields, "size", Size, file),
        routing=_value(fields, "routing", Routing, file),
        lossless=_value(fields, "lossless", Lossless, file),
        topology=from_plain(fields["topology"], f"{file}: topology"),
        devices=_devices(devices, interfaces, names, _prefixes(reader, fields["prefixes"])),
        vrfs=tuple(_items(reader, fields, "vrfs", Vrf)),
        reasons=tuple(reader.column(fields["reasons"], Column(name="reasons", kind=TEXT), "reasons")),
        limits=tuple(reader.column(fields["limits"], Column(name="limits", kind=TEXT), "limits")),
        rejected=tuple(_items(reader, fields, "rejected", Rejected)),
    )


def _value(fields: dict[str, object], key: str, record: type[T], file: str) -> T:
    """One of the small values, by its own description."""
    return load_json(json.dumps(fields[key]), record, f"{file}: {key}")


def _items(reader: Reader, fields: dict[str, object], key: str, record: type[T]) -> list[T]:
    """A list of small values."""
    return [load_json(json.dumps(item), record, f"{reader.where}: {key}") for item in reader.items(fields[key], key)]


def _prefixes(reader: Reader, data: object) -> dict[str, tuple[str, ...]]:
    """The IPv6 gateways of the leaves that have some."""
    if type(data) is not dict:
        raise InputError.one(f"{reader.where}: prefixes", "not a table", "write prefixes by leaf, or {}")
    column = Column(name="prefixes", kind=TEXT)
    return {name: tuple(reader.column(texts, column, f"prefixes.{name}")) for name, texts in data.items()}


def _devices(
    table: list[Values], interfaces: list[Values], names: Values, prefixes: dict[str, tuple[str, ...]]
) -> tuple[Device, ...]:
    """The devices with their interfaces."""
    nodes, roles = table[0], table[1]
    ports = [
        Interface(
            port=names[port], peer=End(node=nodes[peer], port=names[peer_port]), peer_role=roles[peer],
            speed_bits_per_s=float(speed), mtu_bytes=mtu, peer_asn=peer_asn, address=address,
            peer_address=peer_address, vrf=vrf, rail=rail, plane=plane,
        )
        for port, peer, peer_port, speed, mtu, peer_asn, address, peer_address, vrf, rail, plane
        in zip(*interfaces, strict=True)
    ]  # fmt: skip
    made: list[Device] = []
    start = 0
    for name, role, count, model, os, asn, loopback, stripe, rail, plane, rack in zip(*table, strict=True):
        made.append(Device(
            name=name, role=role, interfaces=tuple(ports[start : start + count]), model=model, os=os, asn=asn,
            loopback=loopback, stripe=stripe, rail=rail, plane=plane, rack=rack, prefixes=prefixes.get(name, ()),
        ))  # fmt: skip
        start += count
    return tuple(made)
