"""Reads LLDP neighbours in the formats that switch and host commands print.

`lldpctl -f json` (and json0), `lldpctl` or SONiC's `show lldp neighbors` as text, SONiC's
`show lldp table`, and Junos' `show lldp neighbors`. The reporting device is named by the prompt
before the command, or by the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.document.read import parse_json
from gpuyard.errors import InputError
from gpuyard.fabric.imports.observed_cable import ObservedCable, ReportedPort

Json = dict[str, object]

# root@leaf-1> show lldp neighbors    admin@leaf-1:~$ show lldp table    {master:0} root@leaf-1> …
_PROMPT = re.compile(
    r"^(?:\{[^}]*\}\s*)?[\w.-]+@(?P<host>[\w.-]+?)(?::[^$#>]*)?[>$#]\s*(?P<command>.*lldp.*)$"
)
_JUNOS_HEAD = re.compile(
    r"^Local ?Interface\s+(?:Parent ?Interface\s+)?Chassis ?Id\s+Port ?info\s+System ?Name", re.I
)
_SONIC_HEAD = re.compile(r"^LocalPort\s+RemoteDevice\s+RemotePortID", re.IGNORECASE)
_TEXT_INTERFACE = re.compile(r"^Interface:\s+(?P<port>[^,\s]+),\s*via:")
_MAC = re.compile(
    r"(?:[0-9a-f]{2}[:.-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE
)


def looks_like_lldp(text: str) -> bool:
    """Return whether one of the LLDP commands printed this text."""
    if text.lstrip().startswith("{") and '"lldp"' in text[:2000]:
        return True
    tests = (_JUNOS_HEAD, _SONIC_HEAD, _TEXT_INTERFACE)
    return any(test.match(line.strip()) for line in text.splitlines()[:4000] for test in tests)


def read_lldp(text: str, file: str, device: str) -> tuple[ObservedCable, ...]:
    """Return the neighbours in a report of `device`, unless a prompt in the text names another."""
    read = _json if text.lstrip().startswith("{") else _lines
    cables = tuple(read(text, file, device))
    if not cables:
        raise InputError.one(
            file, "contains no neighbour", "collect it again with LLDP running on both ends"
        )
    return cables


def _json(text: str, file: str, device: str) -> Iterator[ObservedCable]:
    # `lldpctl -f json` prints interfaces as one mapping, or as a list of mappings with one key.
    data = parse_json(text, file)
    for name, interface in _interfaces(data.get("lldp") if isinstance(data, dict) else None, file):
        chassis, port = _first(interface.get("chassis")), _first(interface.get("port"))
        system = _system(chassis)
        if not system:
            continue  # such as a management switch that sends only a MAC address
        kind, name_of_port = _port_id(port)
        others = tuple(text for text in (_value(port.get("descr")), name_of_port) if text)
        is_name = kind in ("ifname", "local", "") and name_of_port
        chosen = name_of_port if is_name else next(iter(others), "")
        yield ObservedCable(
            where=f"{file}: {name}",
            near=ReportedPort(device=device, port=name),
            far=ReportedPort(device=system, port=chosen or "?", others=others),
            seen_by=device,
        )


def _interfaces(lldp: object, file: str) -> Iterator[tuple[str, Json]]:
    lldp = _first(lldp)
    interfaces = lldp.get("interface", [])
    for entry in interfaces if isinstance(interfaces, list) else [interfaces]:
        if not isinstance(entry, dict):
            raise InputError.one(
                file, "interfaces are not in the format of lldpctl", "use `lldpctl -f json`"
            )
        if isinstance(name := entry.get("name"), str):  # json0
            yield name, entry
        else:
            yield from ((port, inner) for port, inner in entry.items() if isinstance(inner, dict))


def _first(value: object) -> Json:
    if isinstance(value, list):
        value = value[0] if value else {}
    return value if isinstance(value, dict) else {}


def _value(value: object) -> str:
    if isinstance(value, list | dict):
        inner = _first(value).get("value", "")
        return inner if isinstance(inner, str) else ""
    return value if isinstance(value, str) else ""


def _system(chassis: Json) -> str:
    if "name" in chassis:
        return _value(chassis["name"])
    return next(
        (name for name, inner in chassis.items() if isinstance(inner, dict) and name != "id"), ""
    )


def _port_id(port: Json) -> tuple[str, str]:
    identity = _first(port.get("id"))
    return _value(identity.get("type")), _value(identity.get("value"))


def _lines(text: str, file: str, device: str) -> Iterator[ObservedCable]:
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
                yield ObservedCable(
                    where=f"{file}:{number}",
                    near=ReportedPort(device=device, port=match["port"]),
                    far=far,
                    seen_by=device,
                )
        elif form and line and not set(line) <= {"-", " "}:
            row = _junos_row(line) if form == "junos" else _sonic_row(line)
            if row is not None:
                yield ObservedCable(
                    where=f"{file}:{number}",
                    near=ReportedPort(device=device, port=row[0]),
                    far=row[1],
                    seen_by=device,
                )


def _junos_row(line: str) -> tuple[str, ReportedPort] | None:
    # et-0/0/0   -   2c:6b:f5:…   et-0/0/1   spine-1
    # The remote port may be a description with spaces; the system name has none.
    cells = line.split()
    chassis = next(
        (place for place, cell in enumerate(cells) if place and _MAC.fullmatch(cell)), None
    )
    if (
        chassis is None
        or len(cells) < chassis + 3
        or not re.match(r"(?:et|xe|ge|mge)-\d", cells[0])
    ):
        return None  # a management port, or not a row
    return _physical(cells[0]), ReportedPort(
        device=cells[-1], port=_physical(" ".join(cells[chassis + 1 : -1]))
    )


def _physical(port: str) -> str:
    # Without the unit: et-0/0/1.0 is et-0/0/1.
    return re.sub(r"^((?:et|xe|ge|mge)-[\d/:]+)\.\d+$", r"\1", port)


def _sonic_row(line: str) -> tuple[str, ReportedPort] | None:
    # Ethernet0   spine-1   Ethernet4   BR   description
    # A port reported by MAC address is identified by its description.
    cells = line.split()
    if len(cells) < 3 or not cells[0].startswith(("Ethernet", "eth")):
        return None
    capable = len(cells) > 3 and re.fullmatch(r"[A-Z]{1,8}", cells[3])
    note = " ".join(cells[4:] if capable else cells[3:])
    port = note if _MAC.fullmatch(cells[2]) and note else cells[2]
    return cells[0], ReportedPort(
        device=cells[1], port=port, others=tuple(text for text in (note, cells[2]) if text)
    )


def _paragraph(lines: list[str]) -> ReportedPort | None:
    # A paragraph of lldpctl ends where the next interface begins.
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
    name = note if kind == "mac" and note else port or note
    return ReportedPort(
        device=system, port=name, others=tuple(text for text in (note, port) if text)
    )
