"""Verification of a running lab: cabling, BGP sessions, and routes of the daemons and kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.errors import Finding
from gpuyard.fabric.fabric import by_name
from gpuyard.fabric.imports.built import AsBuilt
from gpuyard.fabric.imports.compare import compare
from gpuyard.fabric.verify.finding import Check, Verification, error, merged, note, warning
from gpuyard.fabric.verify.sessions import dead_sessions
from gpuyard.lab.links import Lab
from gpuyard.lab.lldp import as_built
from gpuyard.lab.state import SwitchRoute, computed_routes, running_routes, sessions
from gpuyard.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Running:
    """The state of a running lab, read once for all checks."""

    lab: Lab
    built: Topology
    designed: frozenset[SwitchRoute]
    computed: frozenset[SwitchRoute]  # over the cabling as built
    rib: frozenset[SwitchRoute]
    fib: frozenset[SwitchRoute]
    sessions: tuple[tuple[str, int, int], ...]  # switch, established, configured


def read_running(lab: Lab) -> Running:
    """Read the state of every link, daemon and kernel."""
    built = as_built(lab)
    return Running(
        lab=lab,
        built=built,
        designed=computed_routes(lab),
        computed=computed_routes(lab, built),
        rib=running_routes(lab),
        fib=running_routes(lab, kernel=True),
        sessions=tuple((device.name, *sessions(lab, device)) for device in lab.fabric.switches),
    )


def _cabling(running: Running) -> Iterator[Finding]:
    yield from compare(running.lab.fabric.topology, AsBuilt(topology=running.built))
    if running.built == running.lab.fabric.topology:
        yield note(
            "as-built",
            where="all cables",
            what=f"{len(running.built.links)} are connected as designed",
        )


def _sessions(running: Running) -> Iterator[Finding]:
    lab = running.lab
    dead = list(dead_sessions(lab.fabric, running.built, by_name(lab.fabric.devices)))
    for session in dead:
        yield error("sessions", where=str(session.link), what=session.why, fix=session.fix)
    down = [(name, up, count) for name, up, count in running.sessions if up < count]
    for name, up, count in [] if dead else down:
        yield error(
            "sessions",
            where=name,
            what=f"{up} of {count} established",
            fix="run `gpuyard lab heal`, or inspect it: "
            f"`gpuyard lab exec {name} -- vtysh -c 'show bgp summary'`",
        )
    if not dead and not down:
        total = sum(count for _, _, count in running.sessions) // 2
        yield note("sessions", where="all switches", what=f"{total} are established")


def _differ(
    rule: str,
    expected: frozenset[SwitchRoute],
    actual: frozenset[SwitchRoute],
    sides: tuple[str, str],
) -> Iterator[Finding]:
    have = {(route.switch, route.prefix): route.width_count for route in actual}
    want = {(route.switch, route.prefix): route.width_count for route in expected}
    for key in sorted(want.keys() | have.keys()):
        if want.get(key, 0) != have.get(key, 0):
            yield error(
                rule,
                where=f"{key[0]} to {key[1]}",
                what=f"{sides[0]} {want.get(key, 0)} next hops, {sides[1]} {have.get(key, 0)}",
                fix="wait for convergence and verify again; then check the daemon's log",
            )
    if expected == actual:
        yield note(
            rule,
            where="all switches",
            what=f"{len(expected)} routes are the same {sides[0]} and {sides[1]}",
        )


def _rib(running: Running) -> Iterator[Finding]:
    yield from _differ("rib", running.computed, running.rib, ("computed", "in the daemons"))


def _fib(running: Running) -> Iterator[Finding]:
    yield from _differ("fib", running.rib, running.fib, ("in the daemons", "in the kernel"))


def _width(running: Running) -> Iterator[Finding]:
    have = {(route.switch, route.prefix): route.width_count for route in running.fib}
    lost = [
        route
        for route in running.designed
        if have.get((route.switch, route.prefix), 0) < route.width_count
    ]
    for route in sorted(lost, key=lambda route: (route.switch, route.prefix)):
        width = have.get((route.switch, route.prefix), 0)
        yield warning(
            "ecmp",
            where=route.switch,
            what=f"a route has {width} of {route.width_count} ECMP paths",
            fix="fix the cables and sessions reported above",
        )
    if not lost:
        widest = max((route.width_count for route in running.designed), default=0)
        yield note(
            "ecmp",
            where="all switches",
            what=f"every route has all its ECMP paths, up to {widest}",
        )


CHECKS: tuple[Check[Running], ...] = (
    Check(
        name="as-built",
        verifies="every cable is connected as designed, according to LLDP",
        find=_cabling,
    ),
    Check(
        name="sessions", verifies="every BGP session of the design is established", find=_sessions
    ),
    Check(name="rib", verifies="the daemons chose the computed routes", find=_rib),
    Check(name="fib", verifies="the kernel has the routes of the daemons", find=_fib),
    Check(name="ecmp", verifies="every route has as many ECMP paths as designed", find=_width),
)


def verify_lab(running: Running) -> Verification:
    """Run every check on a running lab."""
    results = [check.run(running) for check in CHECKS]
    return Verification(
        checks=tuple(checked for checked, _ in results),
        findings=merged(finding for _, findings in results for finding in findings),
    )
