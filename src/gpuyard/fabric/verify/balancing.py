"""Checks of load balancing: limits of the chosen mode on these switches and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuyard.errors import Finding, choices_text
from gpuyard.fabric.lossless.balancing import balancing_mode, exceeded_limits
from gpuyard.fabric.lossless.lossless_design import working_modes
from gpuyard.fabric.render.switch_os_list import switch_os
from gpuyard.fabric.verify.finding import Check, error
from gpuyard.fabric.verify.subject import ConfiguredFabric


def _limits(subject: ConfiguredFabric) -> Iterator[Finding]:
    fabric = subject.fabric
    mode, overlay = fabric.lossless.balancing.mode, bool(fabric.vrfs)
    name = fabric.demand.os
    if name is None or fabric.demand.technology == "infiniband" or not fabric.size.spines:
        return  # the subnet manager balances, or there is a single path
    os = switch_os(name)
    unmet = exceeded_limits(mode, subject.topology, overlay=overlay)
    if os.balancing_for(mode) is None:
        unmet = (f"{os.name} does not support {balancing_mode(mode).label}", *unmet)
    working = working_modes(os, subject.topology, overlay=overlay)
    for what in unmet:
        yield error(
            "balancing",
            where=mode,
            what=what,
            fix=f"use {choices_text([other.mode for other in working])}",
        )


def _same(subject: ConfiguredFabric) -> Iterator[Finding]:
    chosen = balancing_mode(subject.fabric.lossless.balancing.mode)
    systems = Counter(device.os for device in subject.fabric.switches)
    if not chosen.same_everywhere or len(systems) < 2:
        return
    usual = systems.most_common(1)[0][0]
    for device in subject.fabric.switches:
        if device.os != usual:
            yield error(
                "balancing-same",
                where=device.name,
                what=f"runs {device.os} among {usual}:"
                f" {chosen.label} must be configured alike on all switches",
                fix="run one OS on all switches, or use ecmp",
            )


CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    Check(
        name="balancing",
        verifies="load balancing works within its published limits",
        find=_limits,
    ),
    Check(name="balancing-same", verifies="load balancing is the same on all switches", find=_same),
)
