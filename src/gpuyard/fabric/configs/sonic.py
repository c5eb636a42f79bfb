"""SONiC's config_db.json, nested or flat: rows to the model of a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuyard.document.read import parse_json
from gpuyard.errors import InputError
from gpuyard.fabric.configs.device_config import (
    ConfiguredBgp,
    ConfiguredNeighbour,
    ConfiguredPort,
    DeviceConfig,
)
from gpuyard.fabric.configs.sonic_patterns import SONIC
from gpuyard.fabric.configs.sonic_qos import SonicQos
from gpuyard.fabric.configs.statement import Readings, Statement


def read_sonic(text: str, file: str) -> DeviceConfig:
    """Return the model of a device from config_db.json; routing may be in frr.conf next to it."""
    statements = tuple(_statements(text, file))
    readings = SONIC.read(statements)
    qos = SonicQos(readings)
    settings = [" ".join(one) for one in readings.values.get("metadata", ())]
    settings += [" ".join(one) for one in readings.values.get("buffer-default", ())]
    vrfs = dict.fromkeys(readings.firsts("vrf"), ()) | {
        name: tuple(sorted(some)) for name, some in readings.lists("vrf-setting").items()
    }
    loopbacks = (key.partition("|")[2] for key in readings.firsts("loopback") if "|" in key)
    asn = readings.one("asn")
    return DeviceConfig(
        hostname=readings.one("hostname") or "",
        os="sonic",
        file=file,
        ports=tuple(_ports(readings, qos)),
        loopbacks=tuple(sorted(loopbacks)),
        bgp=ConfiguredBgp(
            asn=int(asn) if asn and asn.isdigit() else None,
            where=f"{file}: DEVICE_METADATA|localhost",
            neighbours=tuple(_neighbours(readings, file)),
            settings=tuple(sorted(settings)),
        ),
        balancing=tuple(sorted(" ".join(one) for one in readings.values.get("balancing", ()))),
        buffers=tuple(sorted(" ".join(one) for one in readings.values.get("buffer-pool", ()))),
        vrfs=tuple(sorted(vrfs.items())),
        undefined=tuple(sorted({*qos.undefined(), *_parents(readings)})),
        other=readings.other,
        unread=readings.unread,
        statements=statements,
    )


def _parents(readings: Readings) -> Iterator[str]:
    # An address needs the row of its interface: INTERFACE|Ethernet0 for Ethernet0|10.0.0.0/31.
    tables = {
        "INTERFACE": ("interface", "vrf-port", "interface-setting"),
        "LOOPBACK_INTERFACE": ("loopback",),
    }
    for table, keys in tables.items():
        names = {name for key in keys for name in readings.firsts(key)}
        for name in names:
            parent, mark, _ = name.partition("|")
            if mark and parent not in names:
                yield f"{table} {parent}"


def with_frr(device: DeviceConfig, routing: DeviceConfig) -> DeviceConfig:
    """Return a SONiC device with the routing of its frr.conf."""
    asns = {asn for asn in (device.bgp.asn, routing.bgp.asn) if asn is not None}
    settings = [*device.bgp.settings, *routing.bgp.settings]
    if len(asns) > 1:  # the routing daemon's is the one in use
        settings.append(f"bgp_asn {device.bgp.asn}, not that of {routing.file}")
    return replace(
        device,
        release=device.release or routing.release,
        hostname=device.hostname or routing.hostname,
        bgp=replace(
            routing.bgp,
            asn=routing.bgp.asn if routing.bgp.asn is not None else device.bgp.asn,
            neighbours=(*device.bgp.neighbours, *routing.bgp.neighbours),
            settings=tuple(settings),
        ),
        policies=routing.policies,
        communities=routing.communities,
        vrfs=tuple(sorted({*device.vrfs, *routing.vrfs})),
        undefined=tuple(sorted({*device.undefined, *routing.undefined})),
        other=(*device.other, *routing.other),
        unread=(*device.unread, *routing.unread),
        statements=(*device.statements, *routing.statements),
    )


def _statements(text: str, file: str) -> Iterator[Statement]:
    data = parse_json(text, file)
    if not isinstance(data, dict):
        raise InputError.one(file, "is not a configuration database", "use config_db.json")
    for name, rows in data.items():
        table, is_flat, key = name.partition("|")
        entries = {key: rows} if is_flat else rows
        if not isinstance(entries, dict):
            yield Statement(words=(table, str(entries)), file=file, line=0)
            continue
        for row, fields in entries.items():
            yield from _row(table, row, fields, file)


def _row(table: str, key: str, fields: object, file: str) -> Iterator[Statement]:
    if not isinstance(fields, dict):
        yield Statement(words=(table, key, str(fields)), file=file, line=0)
        return
    if not fields:
        yield Statement(words=(table, key), file=file, line=0)
    for field, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            words = (table, key, field.removesuffix("@"), str(one))
            yield Statement(words=words, file=file, line=0)


def _ports(readings: Readings, qos: SonicQos) -> Iterator[ConfiguredPort]:
    mtus, speeds = readings.pairs("mtu"), readings.pairs("speed")
    described, admin = readings.pairs("description"), readings.pairs("admin")
    vrfs = readings.pairs("vrf-port")
    settings = readings.lists("port-setting")
    addresses: dict[str, list[str]] = {}
    for key in ("interface", "interface-setting"):
        for name in readings.firsts(key):
            port, mark, address = name.partition("|")
            if mark:
                addresses.setdefault(port, []).append(address)
    for name, *setting in readings.values.get("interface-setting", ()):
        settings.setdefault(name.partition("|")[0], []).append(" ".join(setting))
    names = dict.fromkeys(
        one[0].partition("|")[0]
        for key in (
            "port",
            "mtu",
            "speed",
            "description",
            "admin",
            "port-setting",
            "interface",
            "vrf-port",
            "interface-setting",
        )
        for one in readings.values.get(key, ())
    )
    for name in names:
        yield ConfiguredPort(
            name=name,
            where=readings.places.get(("mtu", name), readings.places.get(("interface", name), "")),
            description=described.get(name, ""),
            mtu_bytes=int(mtus[name]) if name in mtus else None,
            speed_bits_per_s=int(speeds[name]) * 1e6 if name in speeds else None,
            addresses=tuple(sorted(addresses.get(name, ()))),
            vrf=vrfs.get(name),
            is_enabled=admin.get(name, "up") == "up",
            settings=tuple(sorted(settings.get(name, ()))),
            qos=qos.of_port(name),
        )


def _neighbours(readings: Readings, file: str) -> Iterator[ConfiguredNeighbour]:
    asns, local = readings.pairs("peer-as"), readings.pairs("peer-local")
    settings = readings.lists("peer-setting")
    for peer in dict.fromkeys((*readings.firsts("neighbour"), *asns, *local, *settings)):
        vrf, _, address = peer.rpartition("|")
        yield ConfiguredNeighbour(
            peer=address,
            where=f"{file}: BGP_NEIGHBOR|{peer}",
            vrf=vrf or None,
            asns=(asns[peer],) if peer in asns else (),
            local_address=local.get(peer),
            families=("ipv4 unicast",),
            settings=tuple(sorted(settings.get(peer, ()))),
        )
