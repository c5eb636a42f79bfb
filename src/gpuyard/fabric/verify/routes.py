"""Checks of the routes that BGP installs: reach, equal paths, valleys, waits in a circle, and what failures leave."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.verify.failures import Failed, Impact
from gpuyard.fabric.verify.finding import Check, Finding, error, note, warning
from gpuyard.fabric.verify.subject import Subject
from gpuyard.units import RATIO, show

__all__ = ["CHECKS"]


def _sessions(subject: Subject) -> Iterator[Finding]:
    """Both ends of every cable between switches agree."""
    if subject.configured is None:
        return
    for session in subject.configured.dead:
        yield error("sessions", where=str(session.link), what=session.why, fix=session.fix)


def _reach(subject: Subject) -> Iterator[Finding]:
    """Every leaf has a route to every other."""
    if subject.intact.lost_pairs_count:
        yield error(
            "reachability",
            where=subject.intact.lost_pair,
            what=f"no route; {subject.intact.lost_pairs_count:,} pairs of leaves have none",
            fix="restore the missing links or sessions",
        )
    elif subject.intact.least_width:
        yield note("reachability", where="all leaves", what="each has a route to each other")
    elif sum(role == "leaf" for role in subject.network.roles) > 1:
        yield note(
            "reachability",
            where="all leaves",
            what="no spines join them: traffic between rails goes through the servers (PXN, NVLink)",
        )


def _ecmp(subject: Subject) -> Iterator[Finding]:
    """Every uplink of a leaf is used."""
    network = subject.network
    if not subject.intact.least_width:
        return
    ups = [
        (sum(network.tiers[network.edge_node[edge]] > network.tiers[node] for edge in network.edges_of(node)), node)
        for node in range(network.size)
        if network.demand_bits_per_s[node] > 0
    ]
    fewest, node = min(ups)
    limit = int(network.widths[node])
    if limit < fewest:
        yield error(
            "ecmp",
            where=network.names[node],
            what=f"uses {limit} of {fewest} equal paths: multipath is limited to {limit}",
            fix=f"allow {fewest} equal paths",
        )
    elif subject.intact.least_width < fewest:
        yield warning(
            "ecmp",
            where=network.names[node],
            what=f"a leaf has only {subject.intact.least_width} equal paths to another, with {fewest} uplinks",
            fix="spread every leaf's uplinks over the same spines, each with a way to every leaf",
        )
    else:
        yield note(
            "ecmp",
            where="all leaves",
            what=f"{subject.intact.least_width} equal paths to every other leaf, from the routes installed",
        )


def _valley(subject: Subject) -> Iterator[Finding]:
    """No route that came from above is sent up."""
    way = subject.deadlock.valley
    if way is not None:
        yield error(
            "valley",
            where=way.switches[-2],
            what=f"may send up what it learned from above: traffic may go {way}",
            fix="mark routes with a community when they are sent down, and refuse marked routes when they are sent up",
        )


def _deadlock(subject: Subject) -> Iterator[Finding]:
    """No buffers wait for each other in a circle."""
    found = subject.deadlock
    if found.circle is not None:
        after = " and ".join(found.circle.failed) or "no failure at all"
        yield error(
            "deadlock",
            where=found.circle.switches[0],
            what=f"after {after}, buffers wait in a circle: {found.circle}",
            fix="stop routes that came from above from being sent up, so that traffic never bounces",
        )
    elif found.valley is not None:
        bounces = f"; traffic bounces after {' and '.join(found.bounced)}" if found.bounced else ""
        yield warning(
            "deadlock",
            where=found.valley.switches[-2],
            what=f"no proof: policy permits a valley. None of {found.tried_count} states with up to two failures "
            f"has a circle{bounces}",
            fix="stop routes that came from above from being sent up: then there is none after any failures",
        )
    else:
        yield note(
            "deadlock",
            where="all switches",
            what="routes climb, then descend, after any failures: no buffers can wait in a circle",
        )


def _failures(subject: Subject) -> Iterator[Finding]:
    """Any link or switch may fail: all leaves still reach each other, and enough bandwidth is left."""
    kinds: tuple[Failed, ...] = ("link", "spine", "core", "leaf")
    for kind in kinds:
        worst = subject.failures.worst(kind)
        if worst is None:
            continue
        yield from _impact(subject, kind, worst)
        alike = sum(impact.alike_count for impact in subject.failures.impacts if impact.failed == kind)
        before = subject.intact.capacity_ratio
        of = f" of {show(before, RATIO)}" if before < 1 else ""
        what = f"{alike:,} such failures; after the worst, uniform traffic gets {show(worst.capacity_ratio, RATIO)}{of}"
        if kind == "leaf":
            what += " between the other leaves; its servers lose the NICs on it"
        yield note("failures", where=f"any {kind}", what=what)
    if subject.failures.left_out_count:
        yield warning(
            "failures",
            where="links",
            what=f"{subject.failures.left_out_count:,} were not looked at: too few switches are alike",
            fix="mend what the other checks found, then verify again",
        )


def _impact(subject: Subject, kind: Failed, worst: Impact) -> Iterator[Finding]:
    """What is wrong after the worst failure of a kind."""
    if worst.lost_pairs_count:
        yield error(
            "failures",
            where=worst.where,
            what=f"if this {kind} fails, {worst.lost_pairs_count:,} pairs of leaves have no route ({worst.lost_pair})",
            fix="give every leaf links to several spines",
        )
    elif worst.capacity_ratio < _least(subject) * subject.intact.capacity_ratio - 1e-9:
        yield warning(
            "failures",
            where=worst.where,
            what=f"if this {kind} fails, {worst.fullest} is asked for {show(worst.fullest_ratio, RATIO)}: what crosses "
            f"it gets {show(worst.capacity_ratio, RATIO)}, and {show(subject.intact.capacity_ratio, RATIO)} now",
            fix="use more spines with fewer parallel links to each, or weigh paths by their bandwidth",
        )


def _least(subject: Subject) -> float:
    """The share that a failure should leave: what the loss of one spine leaves, of as many as the policy wants."""
    return 1 - 1 / subject.least_spines


CHECKS: tuple[Check[Subject], ...] = (
    Check(name="sessions", proves="every BGP session between switches can come up", find=_sessions),
    Check(name="reachability", proves="every leaf has a route to every other leaf of its plane", find=_reach),
    Check(name="ecmp", proves="every leaf uses all its uplinks toward every other leaf", find=_ecmp),
    Check(name="valley", proves="policy lets no route go down and up again", find=_valley),
    Check(name="deadlock", proves="no buffers can wait for each other in a circle", find=_deadlock),
    Check(name="failures", proves="any link or switch may fail: routes and bandwidth are left", find=_failures),
)
