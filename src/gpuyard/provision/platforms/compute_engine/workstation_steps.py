"""Virtual workstations: obstacles, startup script, user access, and notes for the README."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.plan.graphics import LICENCE_EXCLUDED
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.platforms.compute_engine.workstation_facts import (
    DriverInstall,
    read_workstation_facts,
)
from gpuyard.provision.platforms.host import FOLDER, fragment
from gpuyard.provision.shell_text import shell

DATA = Path(__file__).parent / "data"
SIZES = {"1080p": (1920, 1080), "1440p": (2560, 1440), "4k": (3840, 2160), "8k": (7680, 4320)}
REGISTER_URL = "https://remotedesktop.google.com/headless"
ACCESS_URL = "https://remotedesktop.google.com/access"


def workstation_obstacle(blueprint: Blueprint) -> str | None:
    """Return why this machine and consumption option cannot serve virtual workstations."""
    machine = blueprint.machine
    if machine.vws_api_name is None:
        return (
            f"{machine.name} is not documented as a virtual workstation: "
            "G2, G4 and N1+T4 with whole GPUs are (g4-standard-48, g2-standard-4)"
        )
    if read_workstation_facts().driver_install(machine.chip) is None:
        return f"no documented vWS driver supports {machine.chip}: G2, G4 and N1+T4 have one"
    if blueprint.consumption == "flex-start":
        return "virtual workstations are not documented for flex-start: use --consumption on-demand"
    if blueprint.consumption == "spot" and "spot" not in blueprint.workload.where.consumption:
        return (
            "spot machines can be preempted while people work on them: use --consumption "
            "on-demand, or set `consumption: [spot]` under where: in the workload"
        )
    return None


def _driver_install(blueprint: Blueprint) -> DriverInstall:
    install = read_workstation_facts().driver_install(blueprint.machine.chip)
    assert install is not None, "workstation_obstacle comes first"
    return install


def workstation_script(blueprint: Blueprint, settings: ResolvedSettings) -> str:
    """Return the startup script: driver, desktop, sessions. It is idempotent across reboots."""
    facts = read_workstation_facts()
    install = _driver_install(blueprint)
    driver, virtualgl = facts.driver(install), facts.package("virtualgl")
    values = {
        "FOLDER": FOLDER,
        "DRIVER_URL": driver.url,
        "DRIVER_SHA256": driver.sha256,
        "KERNEL_MODULE": install.kernel_module,
        "MODULE_OPTIONS": install.options,
        "VIRTUALGL_URL": virtualgl.url,
        "VIRTUALGL_SHA256": virtualgl.sha256,
        "REMOTE_DESKTOP_URL": facts.package("remote-desktop").url,
        "SEATS": str(blueprint.sessions_per_machine),
        "SIZES": _desktop_sizes(blueprint),
    }
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {settings.labels_text}",
        "set -euo pipefail",
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
        'mkdir -p "$FOLDER"',
        fragment(DATA / "driver.sh"),
        fragment(DATA / "desktop.sh"),
    ]
    return "\n".join(lines) + "\n"


def _desktop_sizes(blueprint: Blueprint) -> str:
    """The initial desktop size, and the largest: all displays side by side."""
    graphics = blueprint.workload.graphics
    assert graphics is not None, "a workstation workload has graphics"
    width, height = SIZES[graphics.resolution or "1080p"]
    first, largest = f"{width}x{height}", f"{width * graphics.displays}x{height}"
    return first if graphics.displays == 1 else f"{first},{largest}"


def workstation_steps(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[DeployStep]:
    """Yield the commands that show the state of the machines."""
    where = shell("--project={s.project} --zone={s.zone}", s=settings)
    name = shell("{s.name}", s=settings)
    if blueprint.machine_count > 1:
        group = "gcloud compute instance-groups managed"
        yield DeployStep(
            what=f"List the machines ({blueprint.sessions_per_machine} user sessions each)",
            command=f"{group} list-instances {name} {where}",
        )
    machine = _machine_name(blueprint, settings)
    yield DeployStep(
        what='Show the startup log of a machine; it ends with "user sessions are ready"',
        command=f"gcloud compute instances get-serial-port-output {machine} {where}",
    )


def user_access_steps(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[DeployStep]:
    """Yield the steps that give a user a desktop session."""
    binding = (
        shell("gcloud projects add-iam-policy-binding {s.project} --condition=None ", s=settings)
        + "--member=user:PERSON@EXAMPLE.COM"
    )
    where = shell("--project={s.project} --zone={s.zone}", s=settings)
    yield DeployStep(
        what="Once, as a project owner: allow the user to log in with OS Login through "
        "Identity-Aware Proxy",
        command=f"{binding} --role=roles/compute.osLogin\n"
        f"{binding} --role=roles/iap.tunnelResourceAccessor",
    )
    machine = _machine_name(blueprint, settings)
    yield DeployStep(
        what="Once, as the user: log in to a machine with a free session",
        command=f"gcloud compute ssh {machine} {where} --tunnel-through-iap",
    )
    yield DeployStep(
        what=f"Once, in that shell: register the desktop. Get the command with your own code from "
        f'{REGISTER_URL} ("Debian Linux"; the code is valid for a few minutes and one use), and '
        "choose a PIN of at least six digits",
        command='DISPLAY= /opt/google/chrome-remote-desktop/start-host --code="CODE" '
        '--redirect-url="https://remotedesktop.google.com/_/oauthredirect" --name="$(hostname)"',
    )
    yield DeployStep(
        what=f"To connect: open {ACCESS_URL} in Chrome, choose the machine, and enter the PIN",
        command="",
    )


def _machine_name(blueprint: Blueprint, settings: ResolvedSettings) -> str:
    # A managed group appends four random characters.
    return settings.name if blueprint.machine_count == 1 else f"{settings.name}-XXXX"


def workstation_notes(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    """Yield what the user has to know before applying."""
    machine, sessions = blueprint.machine, blueprint.sessions_per_machine
    assert machine.vws_api_name is not None, "workstation_obstacle comes first"
    yield (
        f"Each machine runs {sessions} user session{'s' if sessions > 1 else ''} and requests "
        f"{machine.vws_api_name}, which includes NVIDIA's licence and has its own quota."
    )
    if LICENCE_EXCLUDED in blueprint.option.reasons:
        yield "The cost excludes the virtual workstation licence, whose price is not known."
    if sessions > machine.chip_count:
        yield (
            "Sessions on one GPU have separate displays but share its time and memory: nothing "
            "limits a user to the share in the plan."
        )
    yield "OpenGL renders on the GPU (VirtualGL); Vulkan windows are not set up."
    yield (
        "Chrome Remote Desktop is free. Its Linux host is not documented to encode on the GPU, "
        "as the plan assumes: encoding uses CPU, so large displays may not reach the planned frame "
        "rate. HP Anyware and Amazon DCV encode on the GPU, under their own licences."
    )
    yield (
        "The machines accept only SSH through Identity-Aware Proxy; the desktop connects out "
        "through the NAT gateway."
    )
    if not settings.requested.service_account:
        yield "The machines have no service account, because every user could act as it."
    yield (
        "A machine stopped by a host error restarts with its disk; whether its TTL then starts "
        "again is not documented. Home directories are on that disk and are deleted with the "
        "machine: store work elsewhere."
    )
    if blueprint.consumption == "spot":
        yield "Spot: Google preempts a machine with 30 seconds' notice and deletes its disk."
    if blueprint.consumption == "reservation":
        yield (
            f"The reservation must be for {machine.vws_api_name}: "
            f"one for {machine.api_name} does not match."
        )
    yield (
        "The provider deletes the machines at the end of their TTL; "
        "network, NAT gateway and template remain until you delete them."
    )
