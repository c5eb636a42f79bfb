"""Saves and loads a fabric as JSON; devices and interfaces are columns, strings are shared."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from gpuyard.document.encode import load_json, plain
from gpuyard.document.frozen_json import Plain
from gpuyard.document.read import parse_json, read_text
from gpuyard.errors import InputError, Problem, choices_text
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fabric import Device, Fabric, Interface, RejectedChoice, Vrf
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.routing import Routing
from gpuyard.fabric.size import Size
from gpuyard.topology.columns import from_plain, to_plain
from gpuyard.topology.links import End
from gpuyard.topology.nodes import ROLES
from gpuyard.topology.saved_tables import (
    INDEX,
    INTEGER,
    NUMBER,
    TEXT,
    SavedColumn,
    TableReader,
    Values,
    dump_compact,
    table_of,
)

MAX_BYTES = 1 << 30  # about 400 bytes per GPU
FORMAT = "gpuyard-fabric-1"
T = TypeVar("T")

DEVICES = (
    SavedColumn(name="name", kind=TEXT),
    SavedColumn(name="role", kind=TEXT),
    SavedColumn(name="interface_count", kind=INTEGER),
    SavedColumn(name="model", kind=TEXT, optional=True),
    SavedColumn(name="os", kind=TEXT, optional=True),
    SavedColumn(name="asn", kind=INTEGER, optional=True),
    SavedColumn(name="loopback", kind=TEXT, optional=True),
    SavedColumn(name="stripe", kind=INTEGER, optional=True),
    SavedColumn(name="rail", kind=INTEGER, optional=True),
    SavedColumn(name="plane", kind=INTEGER, optional=True),
    SavedColumn(name="rack", kind=TEXT),
    SavedColumn(name="server_prefix", kind=TEXT, optional=True),
)
INTERFACES = (  # in order of the devices
    SavedColumn(name="port", kind=INDEX, into="port_names"),
    SavedColumn(name="peer", kind=INDEX, into="devices"),
    SavedColumn(name="peer_port", kind=INDEX, into="port_names"),
    SavedColumn(name="speed_bits_per_s", kind=NUMBER),
    SavedColumn(name="mtu_bytes", kind=INTEGER),
    SavedColumn(name="peer_asn", kind=INTEGER, optional=True),
    SavedColumn(name="address", kind=TEXT, optional=True),
    SavedColumn(name="peer_address", kind=TEXT, optional=True),
    SavedColumn(name="vrf", kind=TEXT, optional=True),
    SavedColumn(name="rail", kind=INTEGER, optional=True),
    SavedColumn(name="plane", kind=INTEGER),
)
VALUES = ("demand", "size", "routing", "lossless")
LISTS = ("vrfs", "reasons", "limits", "rejected")
KEYS = ("format", *VALUES, *LISTS, "prefixes", "topology", "devices", "port_names", "interfaces")


def to_json(fabric: Fabric) -> str:
    """Return the fabric as JSON; equal fabrics give the same bytes."""
    position = {device.name: index for index, device in enumerate(fabric.devices)}
    names: dict[str, int] = {}
    devices: list[tuple[Plain, ...]] = []
    interfaces: list[tuple[Plain, ...]] = []
    for device in fabric.devices:
        devices.append(
            (
                device.name,
                device.role,
                len(device.interfaces),
                device.model,
                device.os,
                device.asn,
                device.loopback,
                device.stripe,
                device.rail,
                device.plane,
                device.rack,
                device.server_prefix,
            )
        )
        interfaces += [
            (
                names.setdefault(port.port, len(names)),
                position[port.peer.node],
                names.setdefault(port.peer.port, len(names)),
                port.speed_bits_per_s,
                port.mtu_bytes,
                port.peer_asn,
                port.address,
                port.peer_address,
                port.vrf,
                port.rail,
                port.plane,
            )
            for port in device.interfaces
        ]
    saved: dict[str, Plain] = {"format": FORMAT}
    saved |= {key: plain(getattr(fabric, key)) for key in (*VALUES, *LISTS)}
    prefixes: dict[str, Plain] = {
        device.name: list(device.prefixes) for device in fabric.devices if device.prefixes
    }
    saved |= {
        "prefixes": prefixes,
        "topology": dict(to_plain(fabric.topology)),
        "devices": table_of(DEVICES, devices),
        "port_names": list(names),
        "interfaces": table_of(INTERFACES, interfaces),
    }
    return dump_compact(saved)


def load_fabric(path: Path) -> Fabric:
    """Load a saved fabric from a file."""
    return from_json(read_text(path, MAX_BYTES), str(path))


def from_json(text: str, file: str = "<json>") -> Fabric:
    """Load a fabric that `to_json` wrote; raise InputError with the place of every problem."""
    data = parse_json(text, file)
    reader = TableReader(file)
    fields = reader.record(data, KEYS, optional=(), what=f'a fabric saved as "{FORMAT}"')
    if fields.get("format", FORMAT) != FORMAT:
        reader.wrong("format", f"not {FORMAT}", f'save it again, with "format": "{FORMAT}"')
    if reader.problems:
        raise InputError(reader.problems)
    names = reader.column(
        fields["port_names"], SavedColumn(name="port_names", kind=TEXT), "port_names"
    )
    devices = reader.table(fields["devices"], DEVICES, "devices")
    interfaces = reader.table(fields["interfaces"], INTERFACES, "interfaces")
    if not reader.problems and sum(devices[2]) != len(interfaces[0]):
        reader.wrong(
            "devices.interface_count", "does not add up to the interfaces", "save the fabric again"
        )
    for place, role in enumerate(devices[1] if not reader.problems else ()):
        if role not in ROLES:
            reader.wrong(f"devices.role[{place}]", f'"{role}"', f"use {choices_text(ROLES)}")
    if reader.problems:
        raise InputError(reader.problems)
    fabric = Fabric(
        demand=_value(fields, "demand", Demand, file),
        size=_value(fields, "size", Size, file),
        routing=_value(fields, "routing", Routing, file),
        lossless=_value(fields, "lossless", Lossless, file),
        topology=from_plain(fields["topology"], f"{file}: topology"),
        devices=_devices(devices, interfaces, names, _prefixes(reader, fields["prefixes"])),
        vrfs=tuple(_items(reader, fields, "vrfs", Vrf)),
        reasons=tuple(
            reader.column(fields["reasons"], SavedColumn(name="reasons", kind=TEXT), "reasons")
        ),
        limits=tuple(
            reader.column(fields["limits"], SavedColumn(name="limits", kind=TEXT), "limits")
        ),
        rejected=tuple(_items(reader, fields, "rejected", RejectedChoice)),
    )
    problems = [*_address_problems(fabric, file), *_port_problems(fabric, file)]
    if problems:
        raise InputError(problems[:20])
    return fabric


def _address_problems(fabric: Fabric, file: str) -> Iterator[Problem]:
    for device in fabric.devices:
        texts = [device.loopback, device.server_prefix, *device.prefixes]
        texts += [text for port in device.interfaces for text in (port.address, port.peer_address)]
        for text in filter(None, texts):
            try:
                ipaddress.ip_interface(text)
            except ValueError:
                where = f"{file}: devices.{device.name}"
                what = f"{text[:60]!r} is not an IP address or prefix"
                yield Problem(where=where, what=what, fix="save the fabric again")


def _port_problems(fabric: Fabric, file: str) -> Iterator[Problem]:
    """Interfaces and cables must name the same ports."""
    ends = {(end.node, end.port) for link in fabric.topology.links for end in (link.a, link.b)}
    ports = {(device.name, port.port) for device in fabric.devices for port in device.interfaces}
    peers = {
        (port.peer.node, port.peer.port) for device in fabric.devices for port in device.interfaces
    }
    for node, port in sorted((ends ^ ports) | (peers - ports)):
        where = f"{file}: interfaces of {node}"
        what = f"{port[:60]!r} is not both an interface and the end of a cable"
        yield Problem(where=where, what=what, fix="save the fabric again")


def _value(fields: dict[str, object], key: str, record: type[T], file: str) -> T:
    return load_json(json.dumps(fields[key]), record, f"{file}: {key}")


def _items(reader: TableReader, fields: dict[str, object], key: str, record: type[T]) -> list[T]:
    return [
        load_json(json.dumps(item), record, f"{reader.where}: {key}")
        for item in reader.items(fields[key], key)
    ]


def _prefixes(reader: TableReader, data: object) -> dict[str, tuple[str, ...]]:
    if type(data) is not dict:
        raise InputError.one(
            f"{reader.where}: prefixes", "not a table", "write prefixes by leaf, or {}"
        )
    column = SavedColumn(name="prefixes", kind=TEXT)
    return {
        name: tuple(reader.column(texts, column, f"prefixes.{name}"))
        for name, texts in data.items()
    }


def _devices(
    table: list[Values],
    interfaces: list[Values],
    names: Values,
    prefixes: dict[str, tuple[str, ...]],
) -> tuple[Device, ...]:
    nodes, roles = table[0], table[1]
    columns = [column.name for column in INTERFACES]
    ports = []
    for values in zip(*interfaces, strict=True):
        row = dict(zip(columns, values, strict=True))
        peer = row.pop("peer")
        row["peer"] = End(node=nodes[peer], port=names[row.pop("peer_port")])
        row["port"] = names[row["port"]]
        row["speed_bits_per_s"] = float(row["speed_bits_per_s"])
        ports.append(Interface(peer_role=roles[peer], **row))
    devices: list[Device] = []
    start = 0
    for name, role, count, model, os, asn, loopback, stripe, rail, plane, rack, block in zip(
        *table, strict=True
    ):
        devices.append(
            Device(
                name=name,
                role=role,
                interfaces=tuple(ports[start : start + count]),
                model=model,
                os=os,
                asn=asn,
                loopback=loopback,
                stripe=stripe,
                rail=rail,
                plane=plane,
                rack=rack,
                prefixes=prefixes.get(name, ()),
                server_prefix=block,
            )
        )
        start += count
    return tuple(devices)
