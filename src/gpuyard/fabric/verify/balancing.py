"""Checks of load balancing: what the chosen way cannot do on these switches and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuyard.fabric.lossless import Option, limits_broken, option
from gpuyard.fabric.verify.finding import Check, Finding, error
from gpuyard.fabric.verify.subject import Configured

__all__ = ["CHECKS"]


def _limits(subject: Configured) -> Iterator[Finding]:
    """The chosen way works on these switches, this number of leaves, these links."""
    fabric, topology = subject.fabric, subject.topology
    chosen = option(fabric.lossless.balancing.mode)
    roles = {node.name: node.role for node in topology.nodes}
    between = [link for link in topology.links if "server" not in (roles[link.a.node], roles[link.b.node])]
    pairs = Counter((link.a.node, link.b.node) for link in between)
    broken = limits_broken(
        chosen,
        os=fabric.demand.os,
        leaves=sum(role == "leaf" for role in roles.values()),
        tiers=len({role for role in roles.values() if role != "server"}),
        links_per_pair=max(pairs.values(), default=0),
        overlay=bool(fabric.vrfs),
        fastest_bits_per_s=max((link.speed_bits_per_s for link in between), default=0.0),
    )
    for what in broken if between else ():
        yield error(
            "balancing", where=chosen.mode, what=what, fix="choose another way to balance, such as flowlet or ecmp"
        )


def _same(subject: Configured) -> Iterator[Finding]:
    """A way that must be set alike everywhere is: on one OS, on every switch."""
    chosen: Option = option(subject.fabric.lossless.balancing.mode)
    systems = Counter(device.os for device in subject.fabric.switches)
    if not chosen.same_everywhere or len(systems) < 2:
        return
    usual = systems.most_common(1)[0][0]
    for device in subject.fabric.switches:
        if device.os != usual:
            yield error(
                "balancing-same",
                where=device.name,
                what=f"runs {device.os} among {usual}: {chosen.label} must be set alike on all switches",
                fix="run one OS on all switches, or balance by hash (ecmp)",
            )


CHECKS: tuple[Check[Configured], ...] = (
    Check(name="balancing", proves="load balancing works within its published limits here", find=_limits),
    Check(name="balancing-same", proves="load balancing is set alike on all switches", find=_same),
)
