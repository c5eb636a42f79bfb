"""The fitted numbers: every one near its prior, with a unit and a meaning; and how they make a scalar."""

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
def test_every_number_has_standard_error_and_is_within_its_limit(
    name: str, cell: dict[str, Any]
) -> None:
    limit = cell.get("limit", math.inf)
    assert 0.0 < cell["value"] < 0.98 * limit, name
    assert 0.0 < cell["start"] < limit, name
    assert cell["spread"] > 0.0
    assert 0.0 < cell["standard_error"] < cell["value"], name
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
    assert dict(found.effects) == {name: cell["value"] for name, cell in TABLE["effect"].items()}


def test_scalars_of_the_software_stay_near_one() -> None:
    """A scalar explains what the equations do not; one far from 1 would hide a missing term."""
    for name, cell in TABLE["effect"].items():
        assert name.split("|")[0] in {"family", "profile", "kind", "moe"}, name
        assert abs(cell["value"]) < 0.35, name
        assert 0.0 < cell["standard_error"] < 0.1, name


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


def test_release_without_runs_starts_from_the_one_before() -> None:
    last = find_profile("mlperf-v5.1")
    following = replace(last, name="mlperf-v6", after=last.name)
    calibration = read_calibration()
    for moe in (False, True):
        assert scalar(calibration, following, moe) == scalar(calibration, last, moe)


def test_measured_scalar_takes_precedence() -> None:
    assert scalar(read_calibration(), replace(find_profile("automodel"), scalar=1.23), True) == 1.23


def test_keys() -> None:
    automodel = find_profile("automodel")
    assert effect_keys(automodel, False) == ("family|fsdp", "profile|automodel")
    assert effect_keys(automodel, True)[2:] == ("kind|moe", "moe|automodel")
    assert effect_keys(find_profile("mlperf-v4"), False) == (
        "family|megatron-core",
        "profile|mlperf-v3",
        "profile|mlperf-v4",
    )
    assert isinstance(read_calibration(), TrainingCalibration)
