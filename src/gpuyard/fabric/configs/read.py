"""Reads configurations of any supported switch OS; files of one device are put together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from gpuyard.errors import InputError, Problem
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.eos import read_eos
from gpuyard.fabric.configs.frr import read_frr, with_linux
from gpuyard.fabric.configs.junos import read_junos
from gpuyard.fabric.configs.nvue import read_nvue
from gpuyard.fabric.configs.nxos import read_nxos
from gpuyard.fabric.configs.sonic import read_sonic, with_frr

Format = Literal["junos", "sonic", "nvue", "eos", "nxos", "frr", "linux"]
MANAGEMENT = "management"  # the file that `fabric render --site` writes next to the fabric's
READERS = {
    "junos": read_junos,
    "sonic": read_sonic,
    "nvue": read_nvue,
    "eos": read_eos,
    "nxos": read_nxos,
    "frr": read_frr,
}
_COMMENTS = re.compile(r"\A(?:\s*#(?!!)[^\n]*\n)+")
_JUNOS = re.compile(
    r"^\s*(?:set (?:system|interfaces|protocols|chassis|version|class-of-service|routing-options)\b"
    r"|(?:system|interfaces|protocols|chassis|version|policy-options|groups)\b[^\n]*\{\s*$"
    r"|version \S+;)",
    re.MULTILINE,
)
_EOS = re.compile(
    r"^(?:! (?:device|Command|boot system)|interface (?:Ethernet|Management|Loopback)\d"
    r"|service routing protocols|vrf instance )",
    re.MULTILINE,
)
_NXOS = re.compile(
    r"^(?:feature [a-z]|!RANCID-CONTENT-TYPE: cisco-nx|version \d+\.\d+\(\d|boot nxos "
    r"|vrf context )",
    re.MULTILINE,
)
_FRR = re.compile(
    r"^(?:frr (?:version|defaults)|service integrated-vtysh-config|router bgp \d)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigText:
    """The text of a configuration file and its path."""

    file: str
    text: str

    @property
    def folder(self) -> str:
        return self.file.replace("\\", "/").rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name of the file without its suffix."""
        return self.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]


def format_of(text: str, file: str = "") -> Format | None:
    """Return the format of a configuration by its content; None if it is none."""
    start = _COMMENTS.sub("", text).lstrip()
    if start.startswith("{"):
        return "sonic" if re.search(r'"[A-Z][A-Z_0-9]+(?:\||"\s*:)', text[:5000]) else None
    if start.startswith("#!") and re.search(
        r"^(?:ip link|\s*dcb |for port in)", text, re.MULTILINE
    ):
        return "linux"
    if start.startswith(("net.ipv", "bgpd=", "zebra=")):
        return "linux"
    if re.match(r"-\s+(?:header|set)\s*:", start) or "nvue-api-version" in text[:500]:
        return "nvue"
    if _NXOS.search(text):
        return "nxos"
    if _FRR.search(text) and not _EOS.search(text):
        return "frr"
    if _JUNOS.search(text):
        return "junos"
    if _EOS.search(text):
        return "eos"
    return "frr" if file.endswith("frr.conf") else None


def read_configs(texts: Iterable[ConfigText]) -> tuple[DeviceConfig, ...]:
    """Return one device per host name; raise InputError with the problems of every file."""
    problems: list[Problem] = []
    devices: list[tuple[ConfigText, DeviceConfig]] = []
    scripts: list[ConfigText] = []
    management: list[tuple[ConfigText, DeviceConfig]] = []
    for text in texts:
        form = format_of(text.text, text.file)
        if form == "linux":
            scripts.append(text)
        elif form is not None:
            read_files = management if text.name == MANAGEMENT else devices
            try:
                read_files.append((text, _read(form, text)))
            except InputError as error:
                problems += error.problems
    merged = _with_routing(devices)
    for script in scripts:
        owners = [at for at, (text, _) in enumerate(merged) if text.folder == script.folder]
        if len(owners) == 1:
            text, device = merged[owners[0]]
            merged[owners[0]] = text, with_linux(device, script.text, script.file)
    for place, part in management:
        for at, (text, device) in enumerate(merged):
            if text.folder == place.folder:
                merged[at] = text, _with_management(device, part)
    named = [
        device if device.hostname else replace(device, hostname=_name(text))
        for text, device in merged
    ]
    for name in sorted({one.hostname for one in named}):
        files = [one.file for one in named if one.hostname == name]
        if len(files) > 1:
            problems.append(
                Problem(
                    where=files[1],
                    what=f"is of {name}, as {files[0]} is",
                    fix="give one configuration per device",
                )
            )
    if problems:
        raise InputError(problems)
    if not named:
        raise InputError.one(
            "configurations",
            "no file is a configuration of Junos, SONiC, NVUE, EOS, NX-OS or FRR",
            "give the files that the switches save, such as config_db.json or junos.conf",
        )
    return tuple(named)


def _read(form: Format, text: ConfigText) -> DeviceConfig:
    try:
        return READERS[form](text.text, text.file)
    except ValueError as error:  # a number that is none
        raise InputError.one(
            text.file, f"has a value of the wrong form: {error}", "correct it, or save it again"
        ) from error


def _with_management(device: DeviceConfig, part: DeviceConfig) -> DeviceConfig:
    """Return a device with the statements of the management file next to its own."""
    return replace(
        device,
        other=(*device.other, *part.statements),
        statements=(*device.statements, *part.statements),
    )


def _name(text: ConfigText) -> str:
    generic = {"junos", "config_db", "startup", "frr", "running-config", "eos", "nxos", "config"}
    folder = text.folder.rpartition("/")[2]
    return folder if text.name in generic and folder else text.name


def _with_routing(
    devices: list[tuple[ConfigText, DeviceConfig]],
) -> list[tuple[ConfigText, DeviceConfig]]:
    # SONiC's routing may be in the frr.conf in its folder.
    result: list[tuple[ConfigText, DeviceConfig]] = []
    taken: set[str] = set()
    for text, device in devices:
        if device.os == "sonic":
            routing = [
                other
                for place, other in devices
                if other.os == "frr"
                and (other.hostname == device.hostname or place.folder == text.folder)
                and (not other.hostname or not device.hostname or other.hostname == device.hostname)
            ]
            if routing:
                device = with_frr(device, routing[0])
                taken.add(routing[0].file)
        result.append((text, device))
    return [
        (text, device)
        for text, device in result
        if device.os == "sonic" or device.file not in taken
    ]
