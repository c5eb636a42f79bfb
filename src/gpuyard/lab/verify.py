"""The running lab against design and computation: cabling, sessions, routes of the daemons and of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.fabric.fabric import by_name
from gpuyard.fabric.imports import AsBuilt, compare
from gpuyard.fabric.verify import Check, Checked, Finding, Verification
from gpuyard.fabric.verify.finding import error, note, together, verdict_of, warning
from gpuyard.fabric.verify.sessions import dead_sessions
from gpuyard.lab.lldp import as_built
from gpuyard.lab.state import Route, computed_routes, running_routes, sessions
from gpuyard.lab.wires import Lab
from gpuyard.topology import Topology

__all__ = ["CHECKS", "Running", "read_running", "verify_lab"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Running:
    """Everything that was read from the running lab, once for all checks."""

    lab: Lab
    built: Topology
    designed: frozenset[Route]
    computed: frozenset[Route]  # over the cabling as built
    rib: frozenset[Route]
    fib: frozenset[Route]
    sessions: tuple[tuple[str, int, int], ...]  # switch, established, configured


def read_running(lab: Lab) -> Running:
    """Asks every cable, daemon and kernel."""
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
    """Cables as LLDP tells them, against the design."""
    yield from compare(running.lab.fabric.topology, AsBuilt(topology=running.built))
    if running.built == running.lab.fabric.topology:
        yield note("as-built", where="all cables", what=f"{len(running.built.links)} are where the design has them")


def _sessions(running: Running) -> Iterator[Finding]:
    """Sessions that are down, with the reason where the cabling gives it."""
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
            fix=f"gpuyard lab heal, or look with vtysh at {name}",
        )
    if not dead and not down:
        total = sum(count for _, _, count in running.sessions) // 2
        yield note("sessions", where="all switches", what=f"{total} are established")


def _differ(check: str, wanted: frozenset[Route], found: frozenset[Route], words: tuple[str, str]) -> Iterator[Finding]:
    """Routes that one side has and the other has not, or in another width."""
    have = {(route.switch, route.prefix): route.width_count for route in found}
    want = {(route.switch, route.prefix): route.width_count for route in wanted}
    for key in sorted(want.keys() | have.keys()):
        if want.get(key, 0) != have.get(key, 0):
            yield error(
                check,
                where=f"{key[0]} to {key[1]}",
                what=f"{words[0]} {want.get(key, 0)} next hops, {words[1]} {have.get(key, 0)}",
                fix="wait for convergence and verify again; then look at the daemon's log",
            )
    if wanted == found:
        yield note(check, where="all switches", what=f"{len(wanted)} routes, {words[0]} and {words[1]} alike")


def _rib(running: Running) -> Iterator[Finding]:
    """What the daemons chose, against what was computed over the cabling as built."""
    yield from _differ("rib", running.computed, running.rib, ("computed", "in the daemons"))


def _fib(running: Running) -> Iterator[Finding]:
    """What the kernel forwards by, against what the daemons chose."""
    yield from _differ("fib", running.rib, running.fib, ("in the daemons", "in the kernel"))


def _width(running: Running) -> Iterator[Finding]:
    """Equal paths that the design has and the lab has not."""
    have = {(route.switch, route.prefix): route.width_count for route in running.fib}
    lost = [route for route in running.designed if have.get((route.switch, route.prefix), 0) < route.width_count]
    for route in sorted(lost, key=lambda route: (route.switch, route.prefix)):
        found = have.get((route.switch, route.prefix), 0)
        yield warning(
            "ecmp",
            where=route.switch,
            what=f"a route has {found} of {route.width_count} equal paths",
            fix="mend the cables and sessions above",
        )
    if not lost:
        widest = max((route.width_count for route in running.designed), default=0)
        yield note("ecmp", where="all switches", what=f"every route has all its equal paths, up to {widest}")


CHECKS: tuple[Check[Running], ...] = (
    Check(name="as-built", proves="every cable is where the design has it, as the cables tell", find=_cabling),
    Check(name="sessions", proves="every BGP session of the design is established", find=_sessions),
    Check(name="rib", proves="the daemons chose the routes that were computed", find=_rib),
    Check(name="fib", proves="the kernel forwards by the routes that the daemons chose", find=_fib),
    Check(name="ecmp", proves="every route has as many equal paths as the design", find=_width),
)


def verify_lab(running: Running) -> Verification:
    """Every check over the running lab."""
    findings: list[Finding] = []
    checked: list[Checked] = []
    for check in CHECKS:
        found = list(check.find(running))
        findings += found
        checked.append(Checked(
            name=check.name, proves=check.proves, verdict=verdict_of(found),
            finding_count=sum(finding.severity != "note" for finding in found),
        ))  # fmt: skip
    return Verification(checks=tuple(checked), findings=together(findings))
