"""Audit of configurations: against the design where there is one, else against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding, Findings
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.intent import against_design
from gpuyard.fabric.configs.outliers import outliers
from gpuyard.fabric.configs.peers import between_devices
from gpuyard.fabric.configs.port_qos import of_ports
from gpuyard.fabric.configs.siblings import unlike_siblings
from gpuyard.fabric.configs.state import DeviceState, against_state
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.releases import is_older, release_of
from gpuyard.fabric.verify.finding import error, merged, warning


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedDevice:
    """What was read of a device."""

    name: str
    os: str
    release: str | None
    file: str
    ports: int
    neighbours: int
    statements: int
    other: Annotated[int, Doc("statements that are known and outside the model")]
    unread: Annotated[tuple[str, ...], Doc("statements that are not understood, with their place")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Findings):
    """The findings of an audit, the worst first, and the devices it read."""

    devices: tuple[AuditedDevice, ...]
    findings: tuple[Finding, ...]


def audit(
    devices: Sequence[DeviceConfig],
    fabric: Fabric | None = None,
    states: Sequence[DeviceState] = (),
    designed: Sequence[DeviceConfig] | None = None,
) -> Audit:
    """Audit configurations; without a design, devices and ports are compared with each other."""
    findings: list[Finding] = [
        *_references(devices),
        *_releases(devices),
        *_unread(devices),
    ]
    if fabric is not None:
        findings += against_design(fabric, devices, designed)
    else:
        findings += [*between_devices(devices), *of_ports(devices)]
        findings += _without_cause(findings, unlike_siblings(devices))
        findings += _without_cause(findings, outliers(devices))
    findings += against_state(devices, states)
    return Audit(devices=tuple(_read(device) for device in devices), findings=merged(findings))


def _without_cause(reported: Sequence[Finding], some: Iterator[Finding]) -> Iterator[Finding]:
    """Drop outliers of devices that a finding with a cause already names."""
    named = {
        one.where.split(" ")[0].partition(":")[0] for one in reported if one.severity == "error"
    }
    for finding in some:
        if finding.where.split(" ")[0] not in named:
            yield finding


def _references(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    for device in devices:
        for name in device.undefined:
            yield error(
                "config-reference",
                f"{device.hostname} ({device.file})",
                f"{name} is used and not defined",
                "define it, or correct the name",
            )


def _releases(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    for device in devices:
        known = release_of(device.os)
        minimum = known.minimum if known else None
        if device.release and known and minimum and is_older(device.release, minimum):
            yield warning(
                "config-release",
                f"{device.hostname} ({device.file})",
                f"is of {known.label} {device.release}; rendered files need {minimum}: {known.why}",
                f"upgrade to {minimum} or later before loading rendered files",
            )


def _unread(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    for device in devices:
        if device.unread:
            first = device.unread[0]
            more = f" and {len(device.unread) - 1} more" if len(device.unread) > 1 else ""
            yield warning(
                "config-unread",
                f"{device.hostname} ({first.where})",
                f"not understood: `{first}`{more}: they are not verified",
                "check them by hand; --unread lists them",
            )


def _read(device: DeviceConfig) -> AuditedDevice:
    return AuditedDevice(
        name=device.hostname,
        os=device.os,
        release=device.release,
        file=device.file,
        ports=len(device.ports),
        neighbours=len(device.bgp.neighbours),
        statements=len(device.statements),
        other=len(device.other),
        unread=tuple(f"{one.where}: {one}" for one in device.unread),
    )
