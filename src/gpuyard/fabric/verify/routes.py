"""Checks of the routes that BGP installs: reachability, ECMP, valleys, PFC deadlock, failures."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.fabric.verify.failures import Failed, Impact
from gpuyard.fabric.verify.finding import Check, error, note, warning
from gpuyard.fabric.verify.subject import Subject
from gpuyard.topology.links import Link
from gpuyard.units import RATIO, show


def _sessions(subject: Subject) -> Iterator[Finding]:
    if subject.configured is None:
        return
    explained: set[Link] = set()
    lost = subject.configured.lost_pairs_count
    cut = f", and {lost:,} pairs of leaves have no route" if lost else ""
    for cause in subject.configured.wrong_asns:
        explained |= set(cause.links)
        yield error(
            "sessions",
            where=cause.device,
            what=f"has AS {cause.asn}, and all its neighbours expect AS {cause.expected_asn}:"
            f" {len(cause.links):,} sessions stay down{cut}",
            fix=f"set its AS number to {cause.expected_asn}",
        )
    for session in subject.configured.dead:
        if session.link not in explained:
            yield error("sessions", where=str(session.link), what=session.why, fix=session.fix)


def _reach(subject: Subject) -> Iterator[Finding]:
    healthy = subject.healthy
    if healthy.lost_pairs_count:
        yield error(
            "reachability",
            where=healthy.lost_pair,
            what=f"no route; {healthy.lost_pairs_count:,} pairs of leaves have none",
            fix="restore the missing links or sessions",
        )
    elif healthy.least_width:
        yield note("reachability", where="all leaves", what="every leaf has a route to every other")
    elif sum(role == "leaf" for role in subject.network.roles) > 1:
        yield note(
            "reachability",
            where="all leaves",
            what="no spines: traffic between rails goes through the servers (PXN, NVLink)",
        )


def _ecmp(subject: Subject) -> Iterator[Finding]:
    network = subject.network
    width = subject.healthy.least_width
    if not width:
        return
    ups = [
        (
            sum(
                network.tiers[network.edge_node[edge]] > network.tiers[node]
                for edge in network.edges_of(node)
            ),
            node,
        )
        for node in range(network.size)
        if network.demand_bits_per_s[node] > 0
    ]
    fewest, node = min(ups)
    limit = int(network.widths[node])
    if limit < fewest:
        yield error(
            "ecmp",
            where=network.names[node],
            what=f"uses {limit} of {fewest} ECMP paths: multipath is limited to {limit}",
            fix=f"allow {fewest} ECMP paths",
        )
    elif width < fewest:
        yield warning(
            "ecmp",
            where=network.names[node],
            what=f"a leaf has only {width} ECMP paths to another, with {fewest} uplinks",
            fix="connect every leaf to the same spines, each with a route to every leaf",
        )
    else:
        yield note("ecmp", where="all leaves", what=f"{width} ECMP paths to every other leaf")


def _valley(subject: Subject) -> Iterator[Finding]:
    valley = subject.deadlock.valley
    if valley is not None:
        yield error(
            "valley",
            where=valley.switches[-2],
            what=f"may send up routes learned from above: traffic may take {valley}",
            fix="set a community on routes sent down, and reject routes with it when sending up",
        )


def _deadlock(subject: Subject) -> Iterator[Finding]:
    result = subject.deadlock
    if result.cycle is not None:
        after = " and ".join(result.cycle.failed) or "no failure at all"
        yield error(
            "deadlock",
            where=result.cycle.switches[0],
            what=f"cyclic buffer dependency after {after}: {result.cycle}",
            fix="reject routes from above when sending up, so that traffic never bounces",
        )
    elif result.valley is not None:
        bounces = ""
        if result.bounced:
            bounces = f"; traffic bounces after {' and '.join(result.bounced)}"
        yield warning(
            "deadlock",
            where=result.valley.switches[-2],
            what="not proven: the policy permits a valley. None of"
            f" {result.tried_count} states with up to two failures has a cycle{bounces}",
            fix="reject routes from above when sending up: that excludes cycles after any failures",
        )
    else:
        yield note(
            "deadlock",
            where="all switches",
            what="routes are valley-free after any failures: no cyclic buffer dependency",
        )


def _failures(subject: Subject) -> Iterator[Finding]:
    kinds: tuple[Failed, ...] = ("link", "spine", "core", "leaf")
    for kind in kinds:
        worst = subject.failures.worst(kind)
        if worst is None:
            continue
        yield from _impact(subject, kind, worst)
        alike = sum(
            impact.alike_count for impact in subject.failures.impacts if impact.failed == kind
        )
        before = subject.healthy.capacity_ratio
        of = f" of {show(before, RATIO)}" if before < 1 else ""
        left = show(worst.capacity_ratio, RATIO)
        what = f"{alike:,} such failures; the worst leaves {left}{of} of uniform traffic"
        if kind == "leaf":
            what += " between the other leaves, and its servers lose the NICs on it"
        yield note("failures", where=f"any {kind}", what=what)
    if subject.failures.left_out_count:
        yield warning(
            "failures",
            where="links",
            what=f"{subject.failures.left_out_count:,} failures were not computed:"
            " too few switches are equivalent",
            fix="fix the other findings, then verify again",
        )


def _impact(subject: Subject, kind: Failed, worst: Impact) -> Iterator[Finding]:
    if worst.lost_pairs_count:
        # A demand of one spine accepts that its loss, or that of its only link, cuts leaves off.
        report = warning if subject.least_spines == 1 else error
        yield report(
            "failures",
            where=worst.where,
            what=f"if this {kind} fails, {worst.lost_pairs_count:,} pairs of leaves"
            f" have no route ({worst.lost_pair})",
            fix="connect every leaf to several spines",
        )
    elif worst.capacity_ratio < _least_ratio(subject) * subject.healthy.capacity_ratio - 1e-9:
        yield warning(
            "failures",
            where=worst.where,
            what=f"if this {kind} fails, {worst.hottest} is loaded"
            f" {show(worst.hottest_ratio, RATIO)}: traffic across it gets"
            f" {show(worst.capacity_ratio, RATIO)},"
            f" and {show(subject.healthy.capacity_ratio, RATIO)} without the failure",
            fix="use more spines with fewer parallel links to each, or weighted ECMP",
        )


def _least_ratio(subject: Subject) -> float:
    # What losing one spine leaves, of the number that the policy requires.
    return 1 - 1 / subject.least_spines


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        name="sessions", verifies="every BGP session between switches can come up", find=_sessions
    ),
    Check(
        name="reachability",
        verifies="every leaf has a route to every other leaf of its plane",
        find=_reach,
    ),
    Check(
        name="ecmp", verifies="every leaf uses all its uplinks toward every other leaf", find=_ecmp
    ),
    Check(name="valley", verifies="the policy lets no route go down and up again", find=_valley),
    Check(name="deadlock", verifies="there is no cyclic buffer dependency", find=_deadlock),
    Check(
        name="failures",
        verifies="routes and bandwidth remain after any single failure of a link or switch",
        find=_failures,
    ),
)
