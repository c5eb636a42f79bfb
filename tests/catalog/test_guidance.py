"""Guidance rows: they name existing series, platforms, consumption options and storage."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpuyard.catalog.guidance import Guidance
from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.machines import Consumption

CATALOG = load_catalog()
ROWS = {guidance.name: guidance for guidance in CATALOG.guidance}


def by_name(guidance: Guidance) -> str:
    return guidance.name


@pytest.mark.parametrize("guidance", CATALOG.guidance, ids=by_name)
def test_guidance_names_existing_rows(guidance: Guidance) -> None:
    series = {machine.series for machine in CATALOG.machines}
    assert guidance.series
    assert set(guidance.series) <= series
    assert set(guidance.orchestrators) <= {platform.name for platform in CATALOG.platforms}
    assert set(guidance.storage) <= {storage.service for storage in CATALOG.storage}
    assert set(guidance.consumption) <= {field.name for field in fields(Consumption)}


@pytest.mark.parametrize(
    "guidance", [row for row in CATALOG.guidance if row.consumption], ids=by_name
)
def test_recommended_options_are_available(guidance: Guidance) -> None:
    for name in guidance.series:
        if guidance.name == "finetuning" and name.startswith("A4X"):
            continue  # the page advises calendar mode for A4X, which has none
        machines = [machine for machine in CATALOG.machines if machine.series == name]
        offers = {
            getattr(machine.consumption, option)
            for machine in machines
            for option in guidance.consumption
        }
        assert "yes" in offers, name


def test_tasks_have_guidance() -> None:
    assert {guidance.task for guidance in CATALOG.guidance} == {
        "pretraining",
        "finetuning",
        "inference",
        "graphics",
        "hpc",
    }


def test_guidance_matches_published_pages() -> None:
    assert ROWS["graphics"].series == ("G4", "G2", "N1+T4")
    assert ROWS["frontier-pretraining"].series[0] == "A4X Max"
    assert "A3 High" not in ROWS["frontier-pretraining"].series
    assert "A3 Edge" in ROWS["serving"].series
    assert "A3 Edge" not in ROWS["pretraining"].series
    assert ROWS["single-host-inference"].orchestrators == ("compute-engine",)
