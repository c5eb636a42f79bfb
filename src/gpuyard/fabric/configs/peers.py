"""Checks of configurations against each other: sessions, addresses, MTU and policy at both ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from gpuyard.errors import Finding
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.links import (
    ConfiguredLinks,
    Expectation,
    canonical,
    expectations,
    is_address,
    links_of,
)
from gpuyard.fabric.verify.finding import error, note, warning

SAME_ENDS = "configure both ends alike"


def between_devices(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    """Yield what does not agree between two devices of the same fabric."""
    links = links_of(devices)
    met = tuple(expectations(devices, links))
    yield from _addresses(links)
    yield from _ends(links)
    yield from _asns(met)
    yield from _sessions(devices, links, met)
    yield from _valleys(met)


def _addresses(links: ConfiguredLinks) -> Iterator[Finding]:
    for address, owners in links.owners.items():
        by_vrf = Counter(one.port.vrf for one in owners)
        if by_vrf.most_common(1)[0][1] > 1 and len({id(one.device) for one in owners}) > 1:
            others = ", ".join(one.where for one in owners[1:])
            yield error(
                "config-address",
                owners[0].where,
                f"{address} is also on {others}",
                "use each address once",
            )


def _ends(links: ConfiguredLinks) -> Iterator[Finding]:
    for a, b in links.pairs:
        for label, rule, first, second in (
            ("MTU", "config-mtu", a.port.mtu_bytes, b.port.mtu_bytes),
            ("IP MTU", "config-mtu", a.port.ip_mtu_bytes, b.port.ip_mtu_bytes),
            ("PFC priorities", "config-pfc", a.port.qos.pfc_priorities, b.port.qos.pfc_priorities),
        ):
            if first != second:
                what = f"{label} {_text(first)}, and {b.where} at the other end has {_text(second)}"
                yield error(rule, a.where, what, SAME_ENDS)
        if a.port.is_enabled != b.port.is_enabled:
            off, on = (a, b) if b.port.is_enabled else (b, a)
            what = f"is disabled, and {on.where} at the other end is not"
            yield warning("config-port", off.where, what, "enable it, or disable both")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _asns(met: Sequence[Expectation]) -> Iterator[Finding]:
    """Report a device whose AS number contradicts all its neighbours once."""
    by_peer: dict[str, list[Expectation]] = defaultdict(list)
    for one in met:
        by_peer[one.peer.hostname].append(one)
    culprits: set[str] = set()
    for name, some in by_peer.items():
        wrong = [one for one in some if not one.is_met]
        expected = {one.neighbour.asns for one in wrong}
        if wrong and len(wrong) == len(some) and len(some) > 1 and len(expected) == 1:
            culprits.add(name)
            peer, asns = some[0].peer, " or ".join(expected.pop()) or "none"
            what = (
                f"AS {peer.bgp.asn}, and its neighbours"
                f" expect AS {asns}: {len(wrong)} BGP sessions stay down"
            )
            where = f"{name} ({peer.bgp.where})" if peer.bgp.where else name
            yield error("config-asn", where, what, f"set AS {asns}")
    for one in met:
        if not one.is_met and one.peer.hostname not in culprits:
            what = (
                f"expects AS {' or '.join(one.neighbour.asns) or 'none'}, and"
                f" {one.peer.hostname} has AS {one.peer.bgp.asn}"
            )
            yield error("config-neighbour", one.where, what, "correct the AS number")


def _sessions(
    devices: Sequence[DeviceConfig],
    links: ConfiguredLinks,
    met: Sequence[Expectation],
) -> Iterator[Finding]:
    sessions = {
        (device.hostname, canonical(neighbour.peer))
        for device in devices
        for neighbour in device.bgp.neighbours
    }
    unknown = 0
    for device in devices:
        own = {str(one.address.ip) for one in links.ports if one.device is device}
        own |= {canonical(address) for address in device.loopbacks}
        known = {one.neighbour.peer: one for one in met if one.device is device}
        for neighbour in device.bgp.neighbours:
            place = f" ({neighbour.where})" if neighbour.where else ""
            where = f"{device.hostname} neighbour {neighbour.peer}{place}"
            if not is_address(neighbour.peer):
                continue  # unnumbered
            local = canonical(neighbour.local_address) if neighbour.local_address else None
            if local is not None and is_address(local) and local not in own:
                yield error(
                    "config-neighbour",
                    where,
                    f"local address {local} is on no port",
                    "correct the local address, or the address of the port",
                )
                continue
            port = links.subnet_port(device, neighbour.peer)
            if port is None and not neighbour.is_multihop:
                yield error(
                    "config-neighbour",
                    where,
                    "is in the subnet of no port",
                    "correct the address of the neighbour or of the port",
                )
                continue
            other = local is not None and port is not None and str(port.address.ip) != local
            if other and port is not None and is_address(local or "") and not neighbour.is_multihop:
                what = f"local address {local} is not that of {port.port.name}"
                yield error("config-neighbour", where, what, "correct the local address")
            expected = known.get(neighbour.peer)
            if expected is None:
                unknown += 1
                continue
            if local is not None and not is_address(local):  # an interface, such as Loopback0
                back = [canonical(address) for address in device.loopbacks]
            else:
                back = [local] if local else ([str(port.address.ip)] if port else [])
            if back and not any((expected.peer.hostname, one) in sessions for one in back):
                what = f"{expected.peer.hostname} has no session back to {back[0]}"
                yield error("config-neighbour", where, what, "configure the session at both ends")
    if unknown:
        what = f"{unknown} BGP neighbours belong to none of these configurations: not compared"
        yield note("config-neighbour", "sessions", what)
    yield from _bfd(met)


def _bfd(met: Sequence[Expectation]) -> Iterator[Finding]:
    ends = {(one.device.hostname, one.peer.hostname, one.neighbour.is_multihop): one for one in met}
    for (a, b, kind), one in ends.items():
        other = ends.get((b, a, kind))
        if (
            other is not None
            and a < b
            and (one.neighbour.bfd is None) != (other.neighbour.bfd is None)
        ):
            off = one if one.neighbour.bfd is None else other
            yield error("config-bfd", off.where, "has no BFD, and the other end has", SAME_ENDS)


def _valleys(met: Sequence[Expectation]) -> Iterator[Finding]:
    """Routes that arrive with a mark must not be sent back to the tier that set it.

    The device on whose side some session marks routes toward this one is above it. If this device
    refuses such routes on one session toward that tier, it must on all of them.
    """
    sent = {(one.device.hostname, one.peer.hostname, one.neighbour.is_multihop): one for one in met}
    marked: dict[tuple[str, bool], list[tuple[Expectation, bool]]] = defaultdict(list)
    for (name, above, kind), up in sent.items():
        down = sent.get((above, name, kind))
        if down is not None:
            marks = down.device.marks(down.neighbour)
            if marks:
                refuses = up.device.refuses(up.neighbour)
                marked[name, kind].append((up, bool(marks & refuses)))
    families: dict[bool, list[tuple[Expectation, bool]]] = defaultdict(list)
    for (_, kind), some in marked.items():
        families[kind] += some
    for some in families.values():
        if any(refused for _, refused in some):
            for up, refused in some:
                if not refused and not _marks_down(up):
                    what = f"sends up to {up.peer.hostname} the routes that it learned from above"
                    yield error(
                        "config-policy", up.where, what, "reject the community of routes from above"
                    )


def _marks_down(up: Expectation) -> bool:
    # A device that marks routes on this session is above the peer.
    return bool(up.device.marks(up.neighbour))
