"""The switch operating systems that gpuyard can configure."""

from __future__ import annotations

from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.fabric.render.cumulus.cumulus import CUMULUS
from gpuyard.fabric.render.eos.eos import EOS
from gpuyard.fabric.render.frr.frr import FRR
from gpuyard.fabric.render.junos.junos import JUNOS
from gpuyard.fabric.render.nxos.nxos import NXOS
from gpuyard.fabric.render.sonic.sonic import SONIC
from gpuyard.fabric.render.switch_os import SwitchOS

SWITCH_OSES: tuple[SwitchOS, ...] = (JUNOS, SONIC, CUMULUS, EOS, NXOS, FRR)


def os_names() -> tuple[str, ...]:
    """Return the names of the supported switch OSes."""
    return tuple(system.name for system in SWITCH_OSES)


def switch_os(name: str) -> SwitchOS:
    """Return the OS with this name; raise InputError if gpuyard does not support it."""
    for system in SWITCH_OSES:
        if system.name == name:
            return system
    meant = closest_match(name, os_names())
    fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(os_names())}"
    raise InputError.one("os", f'unknown switch OS "{name}"', fix)
