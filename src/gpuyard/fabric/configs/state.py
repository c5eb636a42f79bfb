"""Running state: BGP sessions and ports that devices report, against their configurations.

Reads JSON of `show bgp summary json` (FRR, SONiC), `show ip bgp summary | json` and
`show interfaces | json` (EOS), `show ip bgp summary | json` and `show interface | json` (NX-OS),
`show bgp summary | display json` and `show interfaces terse |
display json` (Junos), and OpenConfig trees from gNMI. A file is of the device that it is named
after: leaf-1.json, leaf-1.bgp.json. MTUs are not compared: what they include differs per OS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuyard.document.read import parse_json
from gpuyard.errors import Finding, InputError
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.links import accepts, canonical
from gpuyard.fabric.verify.finding import error, note


@dataclass(frozen=True, slots=True, kw_only=True)
class StateText:
    """The text of a state file."""

    file: str
    text: str

    @property
    def device(self) -> str:
        """The device that the file is named after."""
        return self.file.replace("\\", "/").rpartition("/")[2].partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession:
    """A BGP session as a device reports it."""

    peer: str
    asn: str | None
    is_established: bool
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """What a device reports."""

    device: str
    file: str
    asn: str | None
    sessions: tuple[RunningSession, ...]
    down_ports: tuple[str, ...]


def read_states(texts: Iterable[StateText]) -> tuple[DeviceState, ...]:
    """Return the state in every file; InputError for one without sessions and ports."""
    return tuple(_read(text) for text in texts)


def _read(text: StateText) -> DeviceState:
    data = parse_json(text.text, text.file)
    sessions = {one.peer: one for one in _sessions(data)}
    ports = dict(_ports(data))
    if not sessions and not ports:
        raise InputError.one(
            text.file,
            "contains no BGP session and no interface",
            "save `show bgp summary` as JSON, or an OpenConfig tree of network-instances",
        )
    return DeviceState(
        device=text.device,
        file=text.file,
        asn=next((asn for asn in _asns(data)), None),
        sessions=tuple(sessions.values()),
        down_ports=tuple(name for name, is_up in ports.items() if not is_up),
    )


def _objects(data: object) -> Iterator[dict[str, object]]:
    """Yield every object of a tree."""
    if isinstance(data, list):
        for one in data:
            yield from _objects(one)
    elif isinstance(data, dict):
        yield data
        for one in data.values():
            yield from _objects(one)


def _text(value: object) -> str | None:
    """A value, in Junos's form too: [{"data": "…"}]."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0].get("data")
    return str(value) if isinstance(value, str | int) else None


def _sessions(data: object) -> Iterator[RunningSession]:
    for one in _objects(data):
        peers = one.get("peers")
        if isinstance(peers, dict):  # FRR and EOS
            for name, peer in peers.items():
                if isinstance(peer, dict):
                    state = _text(peer.get("state")) or _text(peer.get("peerState"))
                    asn = _text(peer.get("remoteAs")) or _text(peer.get("asn"))
                    yield _session(name, asn, state)
        if "neighborid" in one and "neighboras" in one:  # NX-OS
            address = _text(one["neighborid"]) or ""
            yield _session(address, _text(one["neighboras"]), _text(one.get("state")))
        if "peer-address" in one and "peer-state" in one:  # Junos
            address = (_text(one["peer-address"]) or "").partition("+")[0]
            yield _session(address, _text(one.get("peer-as")), _text(one["peer-state"]))
        inner = one.get("state")
        if "neighbor-address" in one and isinstance(inner, dict) and "session-state" in inner:
            address = _text(one["neighbor-address"]) or ""
            yield _session(address, _text(inner.get("peer-as")), _text(inner["session-state"]))


def _session(peer: str, asn: str | None, state: str | None) -> RunningSession:
    word = state or "unknown"
    return RunningSession(
        peer=canonical(peer), asn=asn, is_established=word.lower() == "established", state=word
    )


def _asns(data: object) -> Iterator[str]:
    for one in _objects(data):
        if isinstance(one.get("peers"), dict):
            asn = _text(one.get("as")) or _text(one.get("asn"))
            if asn is not None:
                yield asn
        if "vrf-local-as" in one:  # NX-OS
            yield _text(one["vrf-local-as"]) or ""
        whole = one.get("global")
        state = whole.get("state") if isinstance(whole, dict) else None
        if isinstance(state, dict) and _text(state.get("as")) is not None:
            yield _text(state.get("as")) or ""


def _ports(data: object) -> Iterator[tuple[str, bool]]:
    for one in _objects(data):
        interfaces = one.get("interfaces")
        if isinstance(interfaces, dict):  # EOS
            for name, port in interfaces.items():
                if isinstance(port, dict) and "lineProtocolStatus" in port:
                    yield name, port["lineProtocolStatus"] == "up"
        state = one.get("state")
        if "interface" in one and state in ("up", "down"):  # NX-OS
            yield _text(one["interface"]) or "", state == "up"
        if "name" in one and isinstance(state, dict) and "oper-status" in state:
            yield _text(one["name"]) or "", _text(state["oper-status"]) == "UP"
        if "oper-status" in one and "name" in one and "admin-status" in one:  # Junos
            name = _text(one["name"])
            if name is not None and _text(one["oper-status"]) in ("up", "down"):
                yield name, _text(one["oper-status"]) == "up"


def against_state(
    devices: Sequence[DeviceConfig], states: Sequence[DeviceState]
) -> Iterator[Finding]:
    """Yield sessions and ports that do not run as configured; a wrong AS number comes first."""
    by_name = {device.hostname: device for device in devices}
    for state in states:
        device = by_name.get(state.device)
        if device is None:
            what = "reports its state, and has no configuration here: not compared"
            yield note("state", f"{state.device} ({state.file})", what)
            continue
        yield from _device(device, state)


def _device(device: DeviceConfig, state: DeviceState) -> Iterator[Finding]:
    where = device.hostname
    if state.asn is not None and device.bgp.asn is not None and state.asn != str(device.bgp.asn):
        yield error(
            "state-asn",
            where,
            f"runs AS {state.asn}, and its configuration has AS {device.bgp.asn}",
            "load the configuration, or correct it",
        )
    down = set(state.down_ports)
    for port in device.ports:
        if port.name in down and port.is_enabled and (port.addresses or port.vrf):
            yield error(
                "state-port", f"{where}:{port.name}", "is down", "check the cable and the optics"
            )
    if not state.sessions:
        return
    sessions = {one.peer: one for one in state.sessions}
    for neighbour in device.bgp.neighbours:
        if neighbour.vrf is not None:
            continue
        running = sessions.get(canonical(neighbour.peer))
        place = f"{where} neighbour {neighbour.peer}"
        if running is None:
            yield error(
                "state-session", place, "is configured and not running", "load the configuration"
            )
        elif (
            running.asn is not None
            and running.asn.isdigit()
            and not accepts(neighbour.asns, int(running.asn), device.bgp.asn)
        ):
            yield error(
                "state-session",
                place,
                f"runs with AS {running.asn}, configured AS {' or '.join(neighbour.asns)}",
                "load the configuration, or correct it",
            )
        elif not running.is_established:
            yield error(
                "state-session",
                place,
                f"is {running.state}, not established",
                "check both ends: port, address, AS number and BFD",
            )
