"""Rules of virtual workstations: the licence that their driver needs, on machines that are rented with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import one_of
from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import View

__all__ = ["is_workstation_form", "workstations_are_licensed"]

SUFFIX = "-vws"
# What a startup script installs on a machine that people sit at: NVIDIA's workstation driver, or a remote desktop.
DESK = re.compile(r"NVIDIA-Linux-\S+-grid(-gcp)?\.run|chrome-remote-desktop|nvidia-gridd")


def is_workstation_form(kind: View) -> bool:
    """True of an accelerator type that brings the licence of workstations."""
    return kind.text.endswith(SUFFIX)


def workstations_are_licensed(bundle: Bundle) -> Iterator[Hit]:
    """A desk asks for the workstation form of its GPU; the form is for machines that are had so, and not for spot."""
    for view in bundle.of("InstanceProperties"):
        kinds = [row["acceleratorType"] for row in view["guestAccelerators"].items]
        forms = [kind for kind in kinds if is_workstation_form(kind)]
        if not forms:
            yield from _unlicensed(bundle, view)
        for kind in forms:
            yield from _not_had_so(bundle, view["machineType"], kind)
        scheduling = view["scheduling"]
        if forms and (scheduling["provisioningModel"].text == "SPOT" or scheduling["preemptible"].is_true):
            what = "a workstation by spot vanishes under the person at it"
            yield Hit(view=scheduling, what=what, fix="use provisioningModel STANDARD", severity="warning")


def _unlicensed(bundle: Bundle, view: View) -> Iterator[Hit]:
    """A machine with GPUs whose script makes it a desk, and that does not ask for the form."""
    machine = bundle.machine(_last(view["machineType"]))
    has_gpus = bool(view["guestAccelerators"].items) or (machine is not None and machine.is_accelerated)
    scripts = [row["value"] for row in view.at("metadata", "items").items if row["key"].text == "startup-script"]
    if not has_gpus or not any(DESK.search(script.text) for script in scripts):
        return
    form = machine.vws_api_name if machine is not None else None
    asked = [_last(row["acceleratorType"]) for row in view["guestAccelerators"].items]
    form = form or next((f"{name}{SUFFIX}" for name in asked if f"{name}{SUFFIX}" in _forms(bundle, "")), None)
    fix = f'add guestAccelerators with "{form}"' if form else f"use a machine that has {one_of(_forms(bundle, ''))}"
    yield Hit(view=view["guestAccelerators"], what="a workstation without its licence: no -vws accelerator", fix=fix)


def _not_had_so(bundle: Bundle, name: View, kind: View) -> Iterator[Hit]:
    """A form that the machine type is not rented with."""
    machine_type = _last(name)
    machine = bundle.machine(machine_type)
    can: tuple[str, ...] = ()
    if machine is not None and machine.vws_api_name:
        can = (machine.vws_api_name,)
    elif machine is None and machine_type.startswith("n1-"):
        can = _forms(bundle, "n1-")
    if not machine_type or _last(kind) in can:
        return
    fix = f"use {one_of(can)}" if can else "use a machine type of G2, a whole GPU of G4, or N1 with T4"
    yield Hit(view=kind, what=f"{machine_type} is not had with {_last(kind)}", fix=fix)


def _forms(bundle: Bundle, prefix: str) -> tuple[str, ...]:
    """The forms that there are, of machine types whose name starts so."""
    rows = (row.vws_api_name for row in bundle.machines if row.name.startswith(prefix))
    return tuple(sorted({name for name in rows if name}))


def _last(view: View) -> str:
    """The name at the end of a path."""
    return view.text.rsplit("/", 1)[-1]
