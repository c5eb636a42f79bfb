"""Desks: machines with the workstation form of their GPU, a desktop for each seat, and how people come to sit there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint import Blueprint
from gpuyard.provision.platform import Step
from gpuyard.provision.platforms.compute_engine.workstations import read_workstation_facts
from gpuyard.provision.platforms.host import FOLDER
from gpuyard.provision.settings import Place

__all__ = ["against_desks", "desk_notes", "desk_script", "desk_steps", "seating_steps"]

DATA = Path(__file__).parent / "data"
SIZES = {"1080p": (1920, 1080), "1440p": (2560, 1440), "4k": (3840, 2160), "8k": (7680, 4320)}
UNPRICED = "The licence for virtual workstations"  # is not in the cost: the plan says so where it knows no price
REGISTER = "https://remotedesktop.google.com/headless"
SIT = "https://remotedesktop.google.com/access"


def against_desks(blueprint: Blueprint) -> str | None:
    """What speaks against desks of this machine, by this way of paying; the machines that can are named."""
    machine, fits = blueprint.machine, {row.name for row in read_workstation_facts().chips}
    if machine.vws_api_name is None:
        return (
            f"no source tells that {machine.name} can be had as a virtual workstation: whole GPUs of G2, G4 and N1+T4 "
            "can (g4-standard-48, g2-standard-4)"
        )
    if machine.chip not in fits:
        return f"no source tells which driver for workstations still serves {machine.chip}: G2, G4 and N1+T4 have one"
    if blueprint.way == "flex-start":
        return "no source tells that workstations can be had by flex-start: use --way on-demand"
    if blueprint.way == "spot" and "spot" not in blueprint.workload.where.consumption:
        return (
            "spot machines vanish under the people at them: use --way on-demand, or write `consumption: [spot]` under "
            "where: in the workload"
        )
    return None


def desk_script(blueprint: Blueprint, place: Place) -> str:
    """The startup script: the driver, the desktop and the seats. It runs at every boot and repeats nothing."""
    facts = read_workstation_facts()
    fitting = facts.fitting(blueprint.machine.chip)
    assert fitting is not None, "the platform asks first"
    driver, virtualgl = facts.driver(fitting), facts.part("virtualgl")
    values = {
        "FOLDER": FOLDER,
        "DRIVER_URL": driver.url,
        "DRIVER_SHA256": driver.sha256,
        "KERNEL_MODULE": fitting.kernel_module,
        "MODULE_OPTIONS": fitting.options,
        "VIRTUALGL_URL": virtualgl.address,
        "VIRTUALGL_SHA256": virtualgl.sha256,
        "REMOTE_DESKTOP_URL": facts.part("remote-desktop").address,
        "SEATS": str(blueprint.seats_per_machine),
        "SIZES": _sizes(blueprint),
    }
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {place.stamp}",
        "set -euo pipefail",
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        'mkdir -p "$FOLDER"',
        *((DATA / name).read_text(encoding="utf-8").rstrip() for name in ("driver.sh", "desktop.sh")),
    ]
    return "\n".join(lines) + "\n"


def _sizes(blueprint: Blueprint) -> str:
    """The first size of a desktop, and the largest: all its displays side by side."""
    graphics = blueprint.workload.graphics
    assert graphics is not None, "a desk has graphics"
    width, height = SIZES[graphics.resolution or "1080p"]
    first, largest = f"{width}x{height}", f"{width * graphics.displays}x{height}"
    return first if graphics.displays == 1 else f"{first},{largest}"


def desk_steps(blueprint: Blueprint, place: Place) -> Iterator[Step]:
    """How to look at the machines."""
    where = f"--project={place.project} --zone={place.zone}"
    if blueprint.machine_count > 1:
        yield Step(
            what=f"see the machines ({blueprint.seats_per_machine} seats each)",
            command=f"gcloud compute instance-groups managed list-instances {place.name} {where}",
        )
    yield Step(
        what='see how far one is: "seats are ready" ends its startup script',
        command=f"gcloud compute instances get-serial-port-output {_machine(blueprint, place)} {where}",
    )


def seating_steps(blueprint: Blueprint, place: Place) -> Iterator[Step]:
    """How a person comes to a seat."""
    project = f"gcloud projects add-iam-policy-binding {place.project} --condition=None"
    member = "--member=user:PERSON@EXAMPLE.COM"
    yield Step(
        what="once, by an owner of the project: let the person in, by OS Login and through Google's tunnel",
        command=f"{project} {member} --role=roles/compute.osLogin\n"
        f"{project} {member} --role=roles/iap.tunnelResourceAccessor",
    )
    yield Step(
        what="once, by the person: log in at a machine that has a seat left",
        command=f"gcloud compute ssh {_machine(blueprint, place)} --project={place.project} --zone={place.zone} "
        "--tunnel-through-iap",
    )
    yield Step(
        what=f"once, in that shell: register the desktop. {REGISTER} gives the command with a code of your own "
        '("Debian Linux"; the code holds for minutes and for one use); it asks for a PIN of six digits or more',
        command='DISPLAY= /opt/google/chrome-remote-desktop/start-host --code="CODE" '
        '--redirect-url="https://remotedesktop.google.com/_/oauthredirect" --name="$(hostname)"',
    )
    yield Step(what=f"each day: open {SIT} in Chrome, choose the machine, and give the PIN", command="")


def _machine(blueprint: Blueprint, place: Place) -> str:
    """The name of a machine; a group's machines have four letters of their own."""
    return place.name if blueprint.machine_count == 1 else f"{place.name}-XXXX"


def desk_notes(blueprint: Blueprint, place: Place) -> Iterator[str]:
    """What has to be known before it is applied."""
    machine, seats = blueprint.machine, blueprint.seats_per_machine
    assert machine.vws_api_name is not None, "the platform asks first"
    fitting = read_workstation_facts().fitting(machine.chip)
    assert fitting is not None, "the platform asks first"
    yield (
        f"Each machine has {seats} seat{'s' if seats > 1 else ''} and asks for {machine.vws_api_name}, which brings "
        "NVIDIA's licence and has a quota of its own."
    )
    yield from (reason for reason in blueprint.option.reasons if reason.startswith(UNPRICED))
    if seats > machine.chip_count:
        yield (
            "Seats of one GPU have displays of their own and share its time and memory: nothing keeps one person from "
            "taking more than the plan gives each."
        )
    yield "OpenGL is drawn by the GPU (VirtualGL); nothing is set up for windows that are drawn with Vulkan."
    yield (
        "Chrome Remote Desktop is free. No source tells that its Linux host encodes on the GPU, as the plan reckons: "
        "pictures take CPU, so do not count on the plan's frame rate for large displays. HP Anyware and Amazon DCV are "
        "made for that, under licences of their own."
    )
    yield "Nothing reaches the machines but SSH through Google's tunnel; the desktop goes out through the NAT gateway."
    if not place.settings.service_account:
        yield "The machines have no identity in the project: whoever sits at one would have it too."
    yield (
        "A machine that a fault of its host stops is started again with its disk; no source tells whether its lifetime "
        "then begins anew. Homes are on that disk and end with the machine: keep work elsewhere."
    )
    if blueprint.way == "spot":
        yield "Spot was asked for: Google ends a machine with half a minute of notice, and its disk goes with it."
    if blueprint.way == "reservation":
        yield f"The reservation has to hold {machine.vws_api_name}: one of {machine.api_name} does not fit."
    yield "The machines end by themselves; network, NAT gateway and template stay until they are taken back."
