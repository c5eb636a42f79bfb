"""Configurations against the designed fabric: drift, with the sessions and routes that it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuyard.errors import Finding
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.drift import drift
from gpuyard.fabric.configs.links import accepts
from gpuyard.fabric.configs.read import ConfigText, read_configs
from gpuyard.fabric.fabric import Device, Fabric, Interface, by_name
from gpuyard.fabric.render.fabric_files import render_switches
from gpuyard.fabric.verify.failures import healthy_impact
from gpuyard.fabric.verify.finding import error, note
from gpuyard.fabric.verify.sessions import DeadSession
from gpuyard.fabric.verify.subject import network_as_built

CAUSES = ("config-asn", "config-neighbour", "config-address", "config-port")


def designed_configs(fabric: Fabric) -> Iterator[DeviceConfig]:
    """Yield the model of every switch as designed: its rendered files, read back."""
    folder, texts = "", list[ConfigText]()
    for file in render_switches(fabric):
        here = file.path.rpartition("/")[0]
        if here != folder and texts:
            yield from read_configs(texts)
            texts = []
        folder = here
        texts.append(ConfigText(file=file.path, text=file.text))
    if texts:
        yield from read_configs(texts)


def against_design(
    fabric: Fabric,
    devices: Sequence[DeviceConfig],
    designed_devices: Sequence[DeviceConfig] | None = None,
) -> Iterator[Finding]:
    """Yield the drift of every device, and devices that are missing or unknown.

    `designed_devices` are those of `designed_configs`, for many audits against one design.
    """
    actual = {device.hostname: device for device in devices}
    designed = set[str]()
    findings: list[Finding] = []
    for wanted in designed_devices or designed_configs(fabric):
        designed.add(wanted.hostname)
        device = actual.get(wanted.hostname)
        if device is not None:
            findings += drift(wanted, device)
    missing = [name for name in sorted(designed) if name not in actual]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        what = f"of {len(designed)} switches {len(missing)} have no configuration here"
        yield note("config-missing", f"{missing[0]}{more}", f"{what}: not compared")
    for name in sorted(actual.keys() - designed):
        yield error(
            "config-device",
            name,
            "is not a switch of the design",
            "remove its file, or correct its host name",
        )
    yield from _with_consequences(fabric, actual, findings)


def _with_consequences(
    fabric: Fabric, actual: Mapping[str, DeviceConfig], findings: Sequence[Finding]
) -> Iterator[Finding]:
    """Add to the causes of a device the sessions that stay down and the routes that are lost."""
    if not any(finding.rule in CAUSES and finding.severity == "error" for finding in findings):
        yield from findings
        return
    configured = as_configured(fabric, actual)
    _, dead = network_as_built(configured, fabric.topology)
    reported = set[str]()
    for finding in findings:
        name = finding.where.split(" ")[0].partition(":")[0]
        if finding.rule not in CAUSES or finding.severity != "error" or name in reported:
            yield finding
            continue
        reported.add(name)
        own = [one for one in dead if name in (one.link.a.node, one.link.b.node)]
        yield replace(finding, what=finding.what + _cost(fabric, actual, name, own))


def _cost(
    fabric: Fabric, actual: Mapping[str, DeviceConfig], name: str, dead: Sequence[DeadSession]
) -> str:
    if not dead:
        return ""
    alone = as_configured(fabric, {name: actual[name]})
    network, _ = network_as_built(alone, fabric.topology)
    healthy, _ = network_as_built(fabric, fabric.topology)
    lost = healthy_impact(network).lost_pairs_count - healthy_impact(healthy).lost_pairs_count
    routes = f" and {lost} pairs of leaves lose their route" if lost else ""
    stay = "session stays" if len(dead) == 1 else "sessions stay"
    return f"; {len(dead)} BGP {stay} down{routes}"


def as_configured(fabric: Fabric, actual: Mapping[str, DeviceConfig]) -> Fabric:
    """Return the fabric with the AS numbers, addresses, MTUs and sessions of the configurations."""
    asns = {
        device.name: actual[device.name].bgp.asn if device.name in actual else device.asn
        for device in fabric.switches
    }
    switches = by_name(fabric.switches)
    return replace(
        fabric,
        devices=tuple(
            _device(device, actual[device.name], asns, switches)
            if device.name in actual
            else device
            for device in fabric.devices
        ),
    )


def _device(
    device: Device,
    config: DeviceConfig,
    asns: Mapping[str, int | None],
    switches: Mapping[str, Device],
) -> Device:
    ports = {port.name: port for port in config.ports}
    sessions = {one.peer: one for one in config.bgp.neighbours if one.vrf is None}
    interfaces: list[Interface] = []
    for port in device.interfaces:
        there = ports.get(port.port)
        session = sessions.get(port.peer_address or port.port)
        if there is None:
            interfaces.append(replace(port, address=None, peer_asn=None))
            continue
        peer_asn = port.peer_asn
        if port.peer.node in switches:
            peer_asn = None
            remote = asns[port.peer.node]
            if session is not None and remote is not None:
                peer_asn = remote if accepts(session.asns, remote, config.bgp.asn) else -1
        address = port.address
        if address is not None and address not in there.addresses:
            address = next(iter(there.addresses), None)
        mtu_bytes = port.mtu_bytes if there.mtu_bytes is None else there.mtu_bytes
        interfaces.append(replace(port, address=address, peer_asn=peer_asn, mtu_bytes=mtu_bytes))
    return replace(device, asn=config.bgp.asn, interfaces=tuple(interfaces))
