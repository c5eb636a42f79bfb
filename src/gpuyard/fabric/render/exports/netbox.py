"""NetBox: CSV files for its bulk import, in the order in which they are imported."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuyard.catalog.load import Catalog
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.labels import cable_labels
from gpuyard.fabric.render.site import Site
from gpuyard.fabric.render.switch_os import File

SITE = "fabric"
# NetBox's slugs of interface types, by speed in Gb/s.
TYPES = {
    10: "10gbase-x-sfpp",
    25: "25gbase-x-sfp28",
    40: "40gbase-x-qsfpp",
    50: "50gbase-x-sfp56",
    100: "100gbase-x-qsfp28",
    200: "200gbase-x-qsfp56",
    400: "400gbase-x-osfp",
    800: "800gbase-x-osfp",
}
_NOT_SLUG = re.compile(r"[^a-z0-9_-]+")


def netbox_files(fabric: Fabric, site: Site | None, catalog: Catalog) -> Iterator[File]:
    """Yield the files; their numbers are the order of import."""
    vendors = {row.name: row.vendor for row in catalog.switches}
    racks = sorted({device.rack for device in fabric.devices if device.rack})
    models = sorted(
        {(_vendor(device, vendors), device.model or device.role) for device in fabric.devices}
    )
    yield _csv("01-sites", ("name", "slug", "status"), [(SITE, SITE, "active")])
    makers = sorted({vendor for vendor, _ in models})
    yield _csv("02-manufacturers", ("name", "slug"), [(one, _slug(one)) for one in makers])
    yield _csv(
        "03-device-types",
        ("manufacturer", "model", "slug"),
        [(vendor, model, _slug(model)) for vendor, model in models],
    )
    roles = list(dict.fromkeys(device.role for device in fabric.devices))
    yield _csv("04-device-roles", ("name", "slug"), [(role, role) for role in roles])
    yield _csv("05-racks", ("site", "name", "status"), [(SITE, rack, "active") for rack in racks])
    yield _csv(
        "06-devices",
        ("role", "manufacturer", "device_type", "site", "rack", "name", "status", "comments"),
        [
            (
                device.role,
                _vendor(device, vendors),
                device.model or device.role,
                SITE,
                device.rack,
                device.name,
                "planned",
                f"AS {device.asn}" if device.asn else "",
            )
            for device in fabric.devices
        ],
    )
    yield _csv(
        "07-interfaces",
        ("device", "name", "type", "mtu", "enabled", "mgmt_only", "description"),
        _interfaces(fabric, site),
    )
    yield _csv(
        "08-ip-addresses",
        ("address", "status", "device", "interface", "is_primary"),
        _addresses(fabric, site),
    )
    yield _csv(
        "09-cables",
        (
            "side_a_device",
            "side_a_type",
            "side_a_name",
            "side_b_device",
            "side_b_type",
            "side_b_name",
            "status",
            "label",
            "length",
            "length_unit",
        ),
        [
            (
                label.lower.node,
                "dcim.interface",
                label.lower.port,
                label.upper.node,
                "dcim.interface",
                label.upper.port,
                "planned",
                str(label.number),
                *(("", "") if label.cable_m is None else (f"{math.ceil(label.cable_m)}", "m")),
            )
            for label in cable_labels(fabric)
        ],
    )


def _vendor(device: Device, vendors: Mapping[str, str]) -> str:
    return vendors.get(device.model or "", "generic")


def _interfaces(fabric: Fabric, site: Site | None) -> Iterator[Sequence[str]]:
    for device in fabric.devices:
        if device.role != "server":
            yield device.name, "lo", "virtual", "", "true", "false", "loopback"
            if site is not None:
                yield device.name, "mgmt", "1000base-t", "", "true", "true", "management"
        for port in device.interfaces:
            kind = TYPES.get(round(port.speed_bits_per_s / 1e9), "other")
            yield (
                device.name,
                port.port,
                kind,
                str(port.mtu_bytes),
                "true",
                "false",
                port.description,
            )


def _addresses(fabric: Fabric, site: Site | None) -> Iterator[Sequence[str]]:
    management = site.addresses(fabric) if site is not None else {}
    for device in fabric.devices:
        if device.loopback:
            primary = "false" if device.name in management else "true"
            yield f"{device.loopback}/32", "active", device.name, "lo", primary
        if site is not None and device.name in management:
            address = f"{management[device.name]}/{site.network.prefixlen}"
            yield address, "active", device.name, "mgmt", "true"
        for port in device.interfaces:
            if port.address:
                yield port.address, "active", device.name, port.port, "false"


def _slug(text: str) -> str:
    return _NOT_SLUG.sub("-", text.lower()).strip("-")


def _csv(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> File:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return File(path=f"netbox/{name}.csv", text=text.getvalue())
