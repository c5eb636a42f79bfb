"""The fitted numbers: every one within its bounds, with a unit and a meaning; and how they make a scalar."""

from __future__ import annotations

import math
import tomllib
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.calibration import (
    PATH,
    TrainingCalibration,
    effect_keys,
    read_calibration,
    scalar,
)
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.profiles import find_profile

TABLE = tomllib.loads(PATH.read_text(encoding="utf-8"))
CELLS = [(name, cell) for table in ("constant", "ratio") for name, cell in TABLE[table].items()]
UNITS = {"ratio", "s", "bytes", "passes", "tokens"}


@pytest.mark.parametrize(("name", "cell"), CELLS, ids=[name for name, _ in CELLS])
def test_every_number_is_within_its_bounds_and_has_a_meaning(
    name: str, cell: dict[str, Any]
) -> None:
    assert cell["low"] <= cell["value"] <= cell["high"], name
    assert cell["low"] <= cell["start"] <= cell["high"], name
    assert cell["low"] < cell["high"], name
    assert cell.get("prior", 1.0) > 0.0
    assert cell["unit"] in UNITS
    assert len(cell["meaning"]) > 10


def test_file_and_code_have_the_same_constants() -> None:
    assert set(TABLE["constant"]) == {field.name for field in fields(TrainingConstants)}
    assert set(TABLE) == {"constant", "ratio", "effect"}


def test_units_agree_with_names() -> None:
    for name, cell in CELLS:
        if name.endswith("_s"):
            assert cell["unit"] == "s", name
        for word in ("bytes", "passes", "tokens"):
            if name.endswith(f"_{word}"):
                assert cell["unit"] == word, name


def test_calibration_round_trips() -> None:
    found = read_calibration()
    for field in fields(TrainingConstants):
        assert getattr(found.constants, field.name) == TABLE["constant"][field.name]["value"]
    assert dict(found.ratios) == {name: cell["value"] for name, cell in TABLE["ratio"].items()}
    assert dict(found.effects) == TABLE["effect"]


def test_scalars_of_the_software_stay_near_one() -> None:
    """A scalar explains what the equations do not; one far from 1 would hide a missing term."""
    for name, value in TABLE["effect"].items():
        assert name.split("|")[0] in {"family", "profile", "kind", "moe"}, name
        assert abs(value) < 0.35, name


@given(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))
def test_scalar_is_the_product_of_its_effects(
    family: float, own: float, kind: float, moe: float
) -> None:
    effects = {
        "family|fsdp": family,
        "profile|automodel": own,
        "kind|moe": kind,
        "moe|automodel": moe,
    }
    given_effects = replace(read_calibration(), effects=effects)
    profile = find_profile("automodel")
    assert scalar(given_effects, profile, False) == pytest.approx(math.exp(family + own))
    assert scalar(given_effects, profile, True) == pytest.approx(
        math.exp(family + own + kind + moe)
    )


def test_profile_without_runs_falls_back_on_its_family() -> None:
    calibration = read_calibration()
    unseen = replace(find_profile("nanotron"), name="nanotron-next")
    assert scalar(calibration, unseen, False) == pytest.approx(
        math.exp(calibration.effects["family|fsdp"])
    )
    nobody = replace(unseen, family="nobody")
    assert scalar(calibration, nobody, False) == 1.0


def test_measured_scalar_takes_precedence() -> None:
    assert scalar(read_calibration(), replace(find_profile("automodel"), scalar=1.23), True) == 1.23


def test_keys() -> None:
    assert effect_keys("fsdp", "automodel", False) == ("family|fsdp", "profile|automodel")
    assert effect_keys("fsdp", "automodel", True)[2:] == ("kind|moe", "moe|automodel")
    assert isinstance(read_calibration(), TrainingCalibration)
