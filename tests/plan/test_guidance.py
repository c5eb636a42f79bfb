"""The provider's guidance as a reason, with its source."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.plan.guidance import guidance_reason
from gpuyard.workload.read import parse_workload

CATALOG = load_catalog()
TRAIN = "task: pretraining\nmodel: {model}\ndata: {{tokens: 1T, sequence: 2048}}\n"
SERVE = "task: inference\nmodel: {model}\ntraffic: {{input: 100, output: 100, concurrency: 8}}\n"
SEATS = "task: graphics\ngraphics: {{use: virtual-workstation, sessions: 4}}\n"


def reason(text: str, machine: str, model: str = "llama-3-70b") -> str:
    workload = parse_workload(text.format(model=model), "test.yaml", CATALOG)
    return guidance_reason(workload, CATALOG.machine(machine), CATALOG)


def test_recommendation_cites_source() -> None:
    found = reason(TRAIN, "a3-ultragpu-8g")
    assert found.startswith(
        "Google recommends A3 Ultra for models of tens to hundreds of billions of parameters"
    )
    assert "choose a deployment strategy, 2026-04-08" in found


def test_recommendation_names_other_scopes() -> None:
    found = reason(TRAIN, "a3-highgpu-8g", "llama-3.1-405b")
    assert "Google recommends A3 High for" in found
    assert "not for models of hundreds of billions to trillions of parameters." in found


def test_missing_recommendation_names_alternatives() -> None:
    found = reason(TRAIN, "g2-standard-96")
    assert found.startswith("Google does not recommend G2 for this pretraining")
    assert "it recommends A4X Max, A4X, A4" in found


def test_recommendation_for_smaller_models_only() -> None:
    assert "only for small and medium models" in reason(SERVE, "g2-standard-8")
    assert reason(SERVE, "g2-standard-8", "llama-3-8b").startswith(
        "Google recommends G2 for small and medium models"
    )


def test_graphics_recommendation() -> None:
    assert reason(SEATS, "g2-standard-8").startswith("Google recommends G2 for")
    assert reason(SEATS, "n1-1xp4").startswith("Google does not recommend N1+P4 for")


@pytest.mark.parametrize("machine", ["dgx-h100", "gb200-nvl72"])
def test_onprem_machine_has_no_guidance(machine: str) -> None:
    assert "No provider publishes guidance" in reason(TRAIN, machine)
