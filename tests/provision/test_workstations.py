"""Lint of virtual workstations: the form of the GPU, the machines that have it, and what is let alone."""

from __future__ import annotations

import pytest

from gpuyard.document import Plain

from .trees import changed, check, sample

DESK = "body.properties"
FORM = f"{DESK}.guestAccelerators[0].acceleratorType"
SCRIPT = f"{DESK}.metadata.items[0].value"


def said(change: dict[str, Plain]) -> list[tuple[str, str, str]]:
    """What the rule says of the changed desk: severity, what and fix."""
    found = check(changed(sample("template-desk.json"), change)).findings
    return [(item.severity, item.what, item.fix) for item in found if item.rule == "workstation"]


def test_a_desk_without_the_form_is_told_which_to_ask_for() -> None:
    [(severity, what, fix)] = said({FORM: "nvidia-l4"})
    assert severity == "error"
    assert "without its licence" in what
    assert '"nvidia-l4-vws"' in fix


@pytest.mark.parametrize("kind", ["nvidia-tesla-t4", "nvidia-tesla-p4"])
def test_on_n1_the_form_follows_the_gpu_that_is_attached(kind: str) -> None:
    [(_, _, fix)] = said({f"{DESK}.machineType": "n1-standard-8", FORM: kind})
    assert f'"{kind}-vws"' in fix
    assert said({f"{DESK}.machineType": "n1-standard-8", FORM: f"{kind}-vws"}) == []


@pytest.mark.parametrize("machine", ["g4-standard-24", "a3-highgpu-8g", "e2-standard-4"])
def test_a_form_stands_on_no_machine_that_is_not_had_so(machine: str) -> None:
    [(severity, what, fix)] = said({f"{DESK}.machineType": machine})
    assert severity == "error"
    assert f"{machine} is not had with nvidia-l4-vws" in what
    assert "G2" in fix


def test_the_form_of_another_machine_is_corrected() -> None:
    [(_, _, fix)] = said({f"{DESK}.machineType": "zones/europe-west1-b/machineTypes/g4-standard-48"})
    assert "nvidia-rtx-pro-6000-vws" in fix


def test_spot_is_a_warning_because_it_is_sold() -> None:
    assert [severity for severity, _, _ in said({f"{DESK}.scheduling.provisioningModel": "SPOT"})] == ["warning"]


def test_jobs_on_the_same_machines_and_desktops_without_gpus_are_let_alone() -> None:
    assert said({FORM: "nvidia-l4", SCRIPT: "#!/bin/bash\ndocker run work\n"}) == []
    apt = "#!/bin/bash\napt-get install -y ./chrome-remote-desktop_current_amd64.deb\n"
    assert said({f"{DESK}.guestAccelerators": "<gone>", f"{DESK}.machineType": "e2-standard-4", SCRIPT: apt}) == []
