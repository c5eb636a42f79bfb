"""Invariants of virtual workstations: the licence of their driver, on machines that offer it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import Finding, choices_text
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant

SUFFIX = "-vws"
# What the startup script of a workstation installs: NVIDIA's vWS driver, or a remote desktop.
DESKTOP = re.compile(r"NVIDIA-Linux-\S+-grid(-gcp)?\.run|chrome-remote-desktop|nvidia-gridd")


def is_workstation_type(kind: ValueView) -> bool:
    """Return True for an accelerator type that includes the workstation licence."""
    return kind.text.endswith(SUFFIX)


@invariant(
    "workstation",
    applies_to="Instance, InstanceTemplate",
    source="Compute Engine: GPU machine types (2026-08-26)",
)
def workstation_has_licence(bundle: LintBundle) -> Iterator[Finding]:
    """Workstations use the -vws accelerator type of a machine that offers it, and not spot."""
    for properties in bundle.of_kind("InstanceProperties"):
        kinds = [row["acceleratorType"] for row in properties["guestAccelerators"].items]
        workstation_types = [kind for kind in kinds if is_workstation_type(kind)]
        for kind in workstation_types:
            yield from _type_is_offered(bundle, properties["machineType"].last_segment, kind)
        if not workstation_types:
            yield from _unlicensed(bundle, properties)
            continue
        scheduling = properties["scheduling"]
        is_spot = scheduling["provisioningModel"].text == "SPOT"
        if is_spot or scheduling["preemptible"].is_true:
            yield scheduling.warning(
                "a spot workstation can be preempted during a user session",
                "use provisioningModel STANDARD",
            )


def _unlicensed(bundle: LintBundle, properties: ValueView) -> Iterator[Finding]:
    machine = bundle.machine(properties["machineType"].last_segment)
    accelerators = properties["guestAccelerators"]
    if not accelerators.items and not (machine and machine.is_accelerated):
        return
    metadata = properties.at("metadata", "items").items
    scripts = [row["value"].text for row in metadata if row["key"].text == "startup-script"]
    if not any(DESKTOP.search(script) for script in scripts):
        return
    offered = _workstation_types(bundle, "")
    requested = [f"{row['acceleratorType'].last_segment}{SUFFIX}" for row in accelerators.items]
    kind = machine.vws_api_name if machine else None
    kind = kind or next((name for name in requested if name in offered), None)
    yield accelerators.error(
        "a workstation without its licence: no -vws accelerator",
        f'add guestAccelerators with "{kind}"'
        if kind
        else f"use a machine that has {choices_text(offered)}",
    )


def _type_is_offered(bundle: LintBundle, machine_type: str, kind: ValueView) -> Iterator[Finding]:
    machine = bundle.machine(machine_type)
    offered: tuple[str, ...] = ()
    if machine is not None and machine.vws_api_name:
        offered = (machine.vws_api_name,)
    elif machine is None and machine_type.startswith("n1-"):
        offered = _workstation_types(bundle, "n1-")
    if machine_type and kind.last_segment not in offered:
        yield kind.error(
            f"{machine_type} is not available with {kind.last_segment}",
            f"use {choices_text(offered)}"
            if offered
            else "use a G2 machine type, a whole GPU of G4, or N1 with T4",
        )


def _workstation_types(bundle: LintBundle, prefix: str) -> tuple[str, ...]:
    names = (row.vws_api_name for row in bundle.machines if row.name.startswith(prefix))
    return tuple(sorted({name for name in names if name}))
