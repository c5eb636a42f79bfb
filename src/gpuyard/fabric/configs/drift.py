"""Drift: what differs between a device as configured and as designed, per property and port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuyard.errors import Finding, Severity
from gpuyard.fabric.configs.device_config import (
    ConfiguredBgp,
    ConfiguredNeighbour,
    ConfiguredPort,
    DeviceConfig,
    RoutingPolicy,
)

MAX_SHOWN = 6  # elements of a list that differs
FIX = "load the designed value: `gpuyard fabric render`"
# A field of the model: the rule, what it is called, and how serious a difference is.
_PORT: tuple[tuple[str, str, str, Severity], ...] = (
    ("is_enabled", "config-port", "is enabled", "error"),
    ("mtu_bytes", "config-mtu", "MTU in bytes", "error"),
    ("ip_mtu_bytes", "config-mtu", "IP MTU in bytes", "error"),
    ("speed_bits_per_s", "config-port", "speed", "error"),
    ("addresses", "config-address", "address", "error"),
    ("vrf", "config-port", "VRF", "error"),
    ("settings", "config-port", "settings", "warning"),
    ("description", "config-description", "description", "warning"),
)
_QOS: tuple[tuple[str, str, str], ...] = (
    ("pfc_priorities", "config-pfc", "PFC priorities"),
    ("pfc_queues", "config-pfc", "queue of a PFC priority"),
    ("pfc_dscp", "config-pfc", "DSCPs with PFC"),
    ("ecn", "config-ecn", "ECN"),
    ("queues", "config-classifier", "queue of a DSCP"),
    ("schedules", "config-scheduler", "scheduler"),
    ("buffers", "config-buffer", "buffer"),
    ("cable_m", "config-buffer", "cable length of the headroom in metres"),
    ("watchdog", "config-watchdog", "PFC watchdog"),
)
_NEIGHBOUR: tuple[tuple[str, str, Severity], ...] = (
    ("asns", "AS number of the neighbour", "error"),
    ("local_address", "local address", "error"),
    ("families", "address families", "error"),
    ("exports", "export policy", "error"),
    ("imports", "import policy", "error"),
    ("bfd", "BFD", "error"),
    ("is_multihop", "multihop", "error"),
    ("group", "group", "warning"),
    ("settings", "settings", "warning"),
)
_BGP: tuple[tuple[str, str, Severity], ...] = (
    ("router_id", "router id", "error"),
    ("max_paths_count", "ECMP paths", "error"),
    ("is_multipath", "multipath over different AS numbers", "error"),
    ("settings", "BGP settings", "warning"),
)


def drift(designed: DeviceConfig, device: DeviceConfig) -> Iterator[Finding]:
    """Yield what differs; what the model does not show, by its statement."""
    name = device.hostname
    if designed.os != device.os:
        yield _finding(
            "config-os",
            name,
            f"is configured for {device.os}, the design is for {designed.os}",
            fix=f"design the fabric for {device.os}: `gpuyard fabric design --os {device.os}`",
        )
        return
    differences = [
        *_bgp(name, designed.bgp, device.bgp),
        *_sets(name, "config-address", "loopback", designed.loopbacks, device.loopbacks),
        *_ports(name, designed, device),
        *_neighbours(name, designed.bgp, device.bgp),
        *_policies(name, designed, device),
        *_sets(name, "config-balancing", "load balancing", designed.balancing, device.balancing),
        *_sets(name, "config-buffer", "packet buffer", designed.buffers, device.buffers),
        *_sets(name, "config-vrf", "VRFs", _lines(designed.vrfs), _lines(device.vrfs)),
    ]
    yield from differences
    if not differences:
        yield from _statements(name, designed, device)


def _finding(
    rule: str, where: str, what: str, severity: Severity = "error", fix: str = FIX
) -> Finding:
    return Finding(rule=rule, severity=severity, where=where, what=what, fix=fix)


def _text(value: object) -> str:
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value / 1e9:g} Gb/s" if value >= 1e9 else f"{value:g}"
    if isinstance(value, tuple):
        shown = [
            " to ".join(map(str, one)) if isinstance(one, tuple) else str(one)
            for one in value[:MAX_SHOWN]
        ]
        more = [f"{len(value) - MAX_SHOWN} more"] if len(value) > MAX_SHOWN else []
        return ", ".join([*shown, *more])
    return str(value)


def _change(label: str, designed: object, actual: object) -> str:
    """Say what differs; of two lists only the elements that differ."""
    if isinstance(designed, tuple) and isinstance(actual, tuple) and designed and actual:
        missing = tuple(one for one in designed if one not in actual)
        extra = tuple(one for one in actual if one not in designed)
        if missing or extra:
            designed, actual = missing, extra
    return f"{label}: {_text(actual)}, designed {_text(designed)}"


def _ports(name: str, designed: DeviceConfig, device: DeviceConfig) -> Iterator[Finding]:
    actual = {port.name: port for port in device.ports}
    expected = {port.name: port for port in designed.ports}
    for port, wanted in expected.items():
        where = f"{name}:{port}"
        if port not in actual:
            yield _finding("config-port", where, "is not configured")
        elif actual[port] != wanted:
            yield from _port(_at(where, actual[port].where), wanted, actual[port])
    for port, configured in actual.items():
        if port not in expected and (configured.addresses or configured.vrf):
            yield _finding(
                "config-port",
                _at(f"{name}:{port}", configured.where),
                f"is configured with {_text(configured.addresses)}, and not in the design",
                "warning",
                "remove it, or add it to the design",
            )


def _at(where: str, place: str) -> str:
    return f"{where} ({place})" if place else where


def _port(where: str, designed: ConfiguredPort, actual: ConfiguredPort) -> Iterator[Finding]:
    for field, rule, label, severity in _PORT:
        wanted, value = getattr(designed, field), getattr(actual, field)
        if wanted != value:
            yield _finding(rule, where, _change(label, wanted, value), severity)
    reported = set[str]()  # the queues of PFC priorities follow from the priorities
    for field, rule, label in _QOS:
        wanted, value = getattr(designed.qos, field), getattr(actual.qos, field)
        if wanted != value and not (rule == "config-pfc" and rule in reported):
            reported.add(rule)
            yield _finding(rule, where, _change(label, wanted, value))


def _bgp(name: str, designed: ConfiguredBgp, actual: ConfiguredBgp) -> Iterator[Finding]:
    if designed.asn != actual.asn:
        what = f"AS {_text(actual.asn)}, designed AS {_text(designed.asn)}"
        yield _finding("config-asn", _at(name, actual.where), what)
        return  # settings that repeat the number follow from it
    for field, label, severity in _BGP:
        wanted, value = getattr(designed, field), getattr(actual, field)
        if wanted != value:
            yield _finding("config-bgp", name, _change(label, wanted, value), severity)


def _neighbours(name: str, designed: ConfiguredBgp, actual: ConfiguredBgp) -> Iterator[Finding]:
    there = {(one.vrf, one.peer): one for one in actual.neighbours}
    wanted = {(one.vrf, one.peer): one for one in designed.neighbours}
    for key, expected in wanted.items():
        where = f"{name} neighbour {expected.peer}"
        if key not in there:
            yield _finding("config-neighbour", where, "is not configured: the session stays down")
        else:
            yield from _neighbour(_at(where, there[key].where), expected, there[key])
    for key, extra in there.items():
        if key not in wanted:
            yield _finding(
                "config-neighbour",
                _at(f"{name} neighbour {extra.peer}", extra.where),
                "is configured, and not in the design",
                "warning",
                "remove it, or add it to the design",
            )


def _neighbour(
    where: str, designed: ConfiguredNeighbour, actual: ConfiguredNeighbour
) -> Iterator[Finding]:
    for field, label, severity in _NEIGHBOUR:
        wanted, value = getattr(designed, field), getattr(actual, field)
        if wanted != value:
            yield _finding("config-neighbour", where, _change(label, wanted, value), severity)


def _policies(name: str, designed: DeviceConfig, device: DeviceConfig) -> Iterator[Finding]:
    actual = {policy.name: policy for policy in device.policies}
    for policy in designed.policies:
        there = actual.get(policy.name)
        if there is None:
            yield _finding("config-policy", name, f"policy {policy.name} is not configured")
        elif there != policy:
            yield _finding("config-policy", name, _policy(policy, there))
    known = {policy.name for policy in designed.policies}
    for extra in device.policies:
        if extra.name not in known:
            what = f"policy {extra.name} is not in the design"
            yield _finding("config-policy", name, what, "warning", "remove it, or add it")
    lists = dict(device.communities)
    for community, values in designed.communities:
        if lists.get(community, ()) != values:
            change = _change(f"community {community}", values, lists.get(community, ()))
            yield _finding("config-policy", name, change)


def _policy(designed: RoutingPolicy, actual: RoutingPolicy) -> str:
    terms = {term.name: term for term in actual.terms}
    for term in designed.terms:
        there = terms.get(term.name)
        if there is None:
            return f"policy {designed.name}: term {term.name} is missing"
        if there != term:
            before = " ".join((*term.conditions, "then", *term.actions))
            after = " ".join((*there.conditions, "then", *there.actions))
            return f"policy {designed.name}, term {term.name}: {after}; designed {before}"
    if len(actual.terms) > len(designed.terms):
        return f"policy {designed.name}: has a term that the design has not"
    return f"policy {designed.name}: the terms are in another order"


def _lines(vrfs: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(f"{name} {setting}" for name, some in vrfs for setting in some or ("",))


def _sets(
    name: str, rule: str, label: str, designed: tuple[str, ...], actual: tuple[str, ...]
) -> Iterator[Finding]:
    if designed != actual and set(designed) != set(actual):
        yield _finding(rule, name, _change(label, designed, actual))


def _statements(name: str, designed: DeviceConfig, device: DeviceConfig) -> Iterator[Finding]:
    """One finding per device; none if it was written in another style than ours."""
    wanted: Mapping[str, str] = {str(one): one.where for one in designed.statements}
    there: Mapping[str, str] = {str(one): one.where for one in device.statements}
    missing = [one for one in wanted if one not in there]
    local = {str(one) for one in device.other}  # such as the management of a site
    extra = [one for one in there if one not in wanted and one not in local]
    if 2 * len(missing) >= len(wanted):
        return
    for kind, some, place in (
        ("is missing", missing, None),
        ("is not in the design", extra, there),
    ):
        if some:
            more = f", and {len(some) - 1} more" if len(some) > 1 else ""
            where = _at(name, place[some[0]] if place else "")
            yield _finding("config-statement", where, f"`{some[0]}` {kind}{more}", "warning")
