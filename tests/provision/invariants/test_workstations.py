"""Invariant of virtual workstations: licence, machine types, spot."""

from __future__ import annotations

import pytest

from gpuyard.document.frozen_json import Plain

from ..trees import changed, check, sample

PROPERTIES = "body.properties"
ACCELERATOR = f"{PROPERTIES}.guestAccelerators[0].acceleratorType"
SCRIPT = f"{PROPERTIES}.metadata.items[0].value"


def findings(change: dict[str, Plain]) -> list[tuple[str, str, str]]:
    result = check(changed(sample("template-desk.json"), change)).findings
    return [(item.severity, item.what, item.fix) for item in result if item.rule == "workstation"]


def test_workstation_without_licence_is_an_error() -> None:
    [(severity, what, fix)] = findings({ACCELERATOR: "nvidia-l4"})
    assert severity == "error"
    assert "without its licence" in what
    assert '"nvidia-l4-vws"' in fix


@pytest.mark.parametrize("kind", ["nvidia-tesla-t4", "nvidia-tesla-p4"])
def test_n1_workstation_type_matches_attached_gpu(kind: str) -> None:
    [(_, _, fix)] = findings({f"{PROPERTIES}.machineType": "n1-standard-8", ACCELERATOR: kind})
    assert f'"{kind}-vws"' in fix
    assert (
        findings({f"{PROPERTIES}.machineType": "n1-standard-8", ACCELERATOR: f"{kind}-vws"}) == []
    )


@pytest.mark.parametrize("machine", ["g4-standard-24", "a3-highgpu-8g", "e2-standard-4"])
def test_workstation_type_of_unsupported_machine_is_an_error(machine: str) -> None:
    [(severity, what, fix)] = findings({f"{PROPERTIES}.machineType": machine})
    assert severity == "error"
    assert f"{machine} is not available with nvidia-l4-vws" in what
    assert "G2" in fix


def test_workstation_type_of_another_machine_is_corrected() -> None:
    [(_, _, fix)] = findings(
        {f"{PROPERTIES}.machineType": "zones/europe-west1-b/machineTypes/g4-standard-48"}
    )
    assert "nvidia-rtx-pro-6000-vws" in fix


def test_spot_workstation_is_a_warning() -> None:
    assert [
        severity
        for severity, _, _ in findings({f"{PROPERTIES}.scheduling.provisioningModel": "SPOT"})
    ] == ["warning"]


def test_gpu_jobs_and_cpu_desktops_have_no_finding() -> None:
    assert findings({ACCELERATOR: "nvidia-l4", SCRIPT: "#!/bin/bash\ndocker run work\n"}) == []
    apt = "#!/bin/bash\napt-get install -y ./chrome-remote-desktop_current_amd64.deb\n"
    assert (
        findings(
            {
                f"{PROPERTIES}.guestAccelerators": "<gone>",
                f"{PROPERTIES}.machineType": "e2-standard-4",
                SCRIPT: apt,
            }
        )
        == []
    )
