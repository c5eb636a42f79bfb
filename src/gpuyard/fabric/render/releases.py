"""The release that each switch OS's files are written for, and what needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc

_CUMULUS = "https://github.com/CumulusNetworks/docs, commit 506e83b3d9 (2026-08-21)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OsRelease:
    """What the files of a switch OS are written for."""

    os: str
    label: str
    minimum: Annotated[str | None, Doc("None: no source names the release of a statement")]
    why: str
    source: str

    @property
    def text(self) -> str:
        """The line at the top of a file."""
        since = f" {self.minimum} or later" if self.minimum else ""
        return f"{self.label}{since}: {self.why}"


RELEASES = (
    OsRelease(
        os="junos",
        label="Junos OS Evolved",
        minimum=None,
        why="statements of Juniper's validated design of 2026-08-07",
        source="https://github.com/Juniper/jvd, commit 005ab34 (2026-08-07)",
    ),
    OsRelease(
        os="sonic",
        label="SONiC",
        minimum=None,
        why="tables of the YANG models of 2026-08-23; ARS of its design 1.4",
        source="https://github.com/sonic-net/sonic-buildimage, commit 086b03b (2026-08-23)",
    ),
    OsRelease(
        os="cumulus",
        label="Cumulus Linux",
        minimum="5.15",
        why="`state: enabled`, which was `enable: on` up to 5.14",
        source=f"{_CUMULUS}, NVUE reference",
    ),
    OsRelease(
        os="eos",
        label="EOS",
        minimum=None,
        why="the grammar of Arista AVD of 2026-11-19",
        source="https://github.com/aristanetworks/avd (2026-11-19)",
    ),
    OsRelease(
        os="nxos",
        label="NX-OS",
        minimum="10.5(1)F",
        why="dynamic load balancing (`hardware profile dlb`), 10.5(3)F on the N9364E-SG2",
        source="https://www.cisco.com/c/en/us/td/docs/dcn/nx-os/nexus9000/105x/"
        "unicast-routing-configuration/cisco-nexus-9000-series-nx-os-unicast-routing-configuration"
        "-guide/m-configure-dynamic-load-balancing.html (2026-11-19)",
    ),
    OsRelease(
        os="frr",
        label="FRR",
        minimum=None,
        why="statements that vtysh accepts, with BFD profiles",
        source="https://docs.frrouting.org/en/latest/bfd.html (2026-11-19)",
    ),
)


def release_of(os: str) -> OsRelease | None:
    """Return the release of an OS; None for one without an entry."""
    return next((one for one in RELEASES if one.os == os), None)


def is_older(release: str, minimum: str) -> bool:
    """Return whether a release is before another: 5.9.1 is before 5.15."""
    return _numbers(release) < _numbers(minimum)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def header(os: str, mark: str = "#") -> str:
    """Return the comment at the top of a file of an OS."""
    release = release_of(os)
    return "" if release is None else f"{mark} {release.text}"
