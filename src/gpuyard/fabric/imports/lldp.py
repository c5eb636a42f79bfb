"""Cables from what devices report of their neighbours (LLDP), in the formats that their commands print.

`lldpctl -f json` (and json0), `lldpctl` or SONiC's `show lldp neighbors` as text, SONiC's `show lldp table`, and
Junos' `show lldp neighbors`. The device itself is named by the prompt before the command, or by the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gpuyard.errors import InputError
from gpuyard.fabric.imports.sighting import Place, Sighting

__all__ = ["looks_like_lldp", "read_lldp"]

Json = dict[str, object]

# root@leaf-1> show lldp neighbors      admin@leaf-1:~$ show lldp table      {master:0} root@leaf-1> …
_PROMPT = re.compile(r"^(?:\{[^}]*\}\s*)?[\w.-]+@(?P<host>[\w.-]+?)(?::[^$#>]*)?[>$#]\s*(?P<command>.*lldp.*)$")
_JUNOS_HEAD = re.compile(r"^Local ?Interface\s+(?:Parent ?Interface\s+)?Chassis ?Id\s+Port ?info\s+System ?Name", re.I)
_SONIC_HEAD = re.compile(r"^LocalPort\s+RemoteDevice\s+RemotePortID", re.IGNORECASE)
_TEXT_INTERFACE = re.compile(r"^Interface:\s+(?P<port>[^,\s]+),\s*via:")
_MAC = re.compile(r"(?:[0-9a-f]{2}[:.-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)


def looks_like_lldp(text: str) -> bool:
    """True of a text that one of the commands printed."""
    if text.lstrip().startswith("{") and '"lldp"' in text[:2000]:
        return True
    tests = (_JUNOS_HEAD, _SONIC_HEAD, _TEXT_INTERFACE)
    return any(test.match(line.strip()) for line in text.splitlines()[:4000] for test in tests)


def read_lldp(text: str, file: str, device: str) -> tuple[Sighting, ...]:
    """The neighbours in a report; `device` is whose report it is, unless a prompt in the text says so."""
    found = tuple(_json(text, file, device) if text.lstrip().startswith("{") else _lines(text, file, device))
    if not found:
        raise InputError.one(file, "no neighbour in it", "collect it again with LLDP running on both ends")
    return found


def _json(text: str, file: str, device: str) -> Iterator[Sighting]:
    """`lldpctl -f json`: interfaces as one mapping or as a list of mappings with one key each."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError.one(f"{file}:{error.lineno}", f"not JSON: {error.msg}", "save the output as it is") from None
    for name, interface in _interfaces(data.get("lldp") if isinstance(data, dict) else None, file):
        chassis, port = _first(interface.get("chassis")), _first(interface.get("port"))
        system = _system(chassis)
        if not system:
            continue  # a neighbour without a name, such as a management switch that sends a MAC address alone
        kind, spelled = _port_id(port)
        others = tuple(text for text in (_value(port.get("descr")), spelled) if text)
        chosen = spelled if kind in ("ifname", "local", "") and spelled else next(iter(others), "")
        yield Sighting(
            where=f"{file}: {name}",
            near=Place(device=device, port=name),
            far=Place(device=system, port=chosen or "?", others=others),
            seen_by=device,
        )


def _interfaces(lldp: object, file: str) -> Iterator[tuple[str, Json]]:
    """Names of ports and what is said of them."""
    lldp = _first(lldp)
    interfaces = lldp.get("interface", [])
    for each in interfaces if isinstance(interfaces, list) else [interfaces]:
        if not isinstance(each, dict):
            raise InputError.one(file, "interfaces are not in the form of lldpctl", "use `lldpctl -f json`")
        if isinstance(name := each.get("name"), str):  # json0
            yield name, each
        else:
            yield from ((port, inner) for port, inner in each.items() if isinstance(inner, dict))


def _first(value: object) -> Json:
    """json0 puts everything into lists of one."""
    if isinstance(value, list):
        value = value[0] if value else {}
    return value if isinstance(value, dict) else {}


def _value(value: object) -> str:
    """A text, or the value in a mapping or list of one."""
    if isinstance(value, list | dict):
        inner = _first(value).get("value", "")
        return inner if isinstance(inner, str) else ""
    return value if isinstance(value, str) else ""


def _system(chassis: Json) -> str:
    """The neighbour's name: a key in json, a field in json0."""
    if "name" in chassis:
        return _value(chassis["name"])
    return next((name for name, inner in chassis.items() if isinstance(inner, dict) and name != "id"), "")


def _port_id(port: Json) -> tuple[str, str]:
    """Kind and value of a port's identity."""
    identity = _first(port.get("id"))
    return _value(identity.get("type")), _value(identity.get("value"))


def _lines(text: str, file: str, device: str) -> Iterator[Sighting]:
    """Tables and paragraphs, in any order, each after the prompt of its device."""
    lines = text.splitlines()
    form = ""
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        prompt = _PROMPT.match(line)
        if prompt:
            device, form = prompt["host"], ""
        elif _JUNOS_HEAD.match(line):
            form = "junos"
        elif _SONIC_HEAD.match(line):
            form = "sonic"
        elif match := _TEXT_INTERFACE.match(line):
            form = ""
            far = _paragraph(lines[number:])
            if far is not None:
                yield Sighting(where=f"{file}:{number}", near=Place(device=device, port=match["port"]), far=far,
                               seen_by=device)  # fmt: skip
        elif form and line and not set(line) <= {"-", " "}:
            row = _junos_row(line) if form == "junos" else _sonic_row(line)
            if row is not None:
                yield Sighting(where=f"{file}:{number}", near=Place(device=device, port=row[0]), far=row[1],
                               seen_by=device)  # fmt: skip


def _junos_row(line: str) -> tuple[str, Place] | None:
    """et-0/0/0   -   2c:6b:f5:…   et-0/0/1   spine-1 — the port may be a description with spaces, the name has none."""
    cells = line.split()
    chassis = next((place for place, cell in enumerate(cells) if place and _MAC.fullmatch(cell)), None)
    if chassis is None or len(cells) < chassis + 3 or not re.match(r"(?:et|xe|ge|mge)-\d", cells[0]):
        return None  # a management port, or a line that is no row
    return _physical(cells[0]), Place(device=cells[-1], port=_physical(" ".join(cells[chassis + 1 : -1])))


def _physical(port: str) -> str:
    """A port without its unit: et-0/0/1.0 is et-0/0/1."""
    return re.sub(r"^((?:et|xe|ge|mge)-[\d/:]+)\.\d+$", r"\1", port)


def _sonic_row(line: str) -> tuple[str, Place] | None:
    """Ethernet0   spine-1   Ethernet4   BR   description — a port told by MAC is known by its description."""
    cells = line.split()
    if len(cells) < 3 or not cells[0].startswith(("Ethernet", "eth")):
        return None
    capable = len(cells) > 3 and re.fullmatch(r"[A-Z]{1,8}", cells[3])
    note = " ".join(cells[4:] if capable else cells[3:])
    port = note if _MAC.fullmatch(cells[2]) and note else cells[2]
    return cells[0], Place(device=cells[1], port=port, others=tuple(text for text in (note, cells[2]) if text))


def _paragraph(lines: list[str]) -> Place | None:
    """The neighbour in a paragraph of lldpctl, which ends where the next interface begins."""
    system, identity, note = "", "", ""
    for line in lines:
        if _TEXT_INTERFACE.match(line.strip()) or _PROMPT.match(line.strip()):
            break
        key, _, value = line.strip().partition(":")
        value = value.strip()
        if key == "SysName":
            system = value
        elif key == "PortID":
            identity = value
        elif key == "PortDescr":
            note = value
    kind, _, port = identity.partition(" ")
    if not system or not (port or note):
        return None
    told = note if kind == "mac" and note else port or note
    return Place(device=system, port=told, others=tuple(text for text in (note, port) if text))
