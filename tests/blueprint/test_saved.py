"""Saved blueprints: JSON round trip, hash, and detection of changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint.blueprint import Blueprint, Evidence, Shape
from gpuyard.blueprint.saved import blueprint_from_json, blueprint_hash, blueprint_to_json
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.errors import InputError
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for
from sample_blueprints import SHAPES

from .samples import CATALOG, blueprint_of


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("machine", ["a3-megagpu-8g", "g2-standard-4", "ct6e-standard-4t"])
def test_blueprint_is_equal_after_json_round_trip(machine: str, shape: Shape) -> None:
    blueprint = blueprint_of(machine, shape)
    loaded = blueprint_from_json(blueprint_to_json(blueprint))
    assert loaded == blueprint
    assert blueprint_hash(loaded) == blueprint_hash(blueprint)
    assert blueprint_to_json(loaded) == blueprint_to_json(blueprint)


def test_fabric_and_evidence_are_saved() -> None:
    fabric = design(demand_for(CATALOG.machine("dgx-h100"), 4), CATALOG)
    assert isinstance(fabric, Fabric)
    numbers = FrozenJson.of({"completion_s": 0.4})
    evidence = Evidence(kind="simulation", name="ring", what="0.4 s", numbers=numbers)
    blueprint = replace(
        blueprint_of("dgx-h100", consumption=None), fabric=fabric, evidence=(evidence,)
    )
    loaded = blueprint_from_json(blueprint_to_json(blueprint))
    assert loaded.fabric == fabric
    assert loaded.evidence == (evidence,)


def test_keys_of_earlier_releases_are_read() -> None:
    tree = json.loads(blueprint_to_json(blueprint_of()))
    del tree["hash"], tree["format"]
    tree["way"] = tree.pop("consumption")
    tree["proofs"] = tree.pop("evidence")
    canonical = json.dumps(tree, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = json.dumps({"format": "gpuyard-blueprint-1", "hash": digest, **tree})
    assert blueprint_from_json(text).consumption == "spot"


def test_changed_file_raises_input_error() -> None:
    tree = json.loads(blueprint_to_json(blueprint_of()))
    tree["option"]["cluster"]["machine_count"] = 64
    with pytest.raises(InputError, match="changed after it was saved"):
        blueprint_from_json(json.dumps(tree), "blueprint.json")
    tree["format"] = "gpuyard-blueprint-0"
    with pytest.raises(InputError, match="gpuyard-blueprint-0"):
        blueprint_from_json(json.dumps(tree), "blueprint.json")
    del tree["workload"]
    with pytest.raises(InputError, match="workload"):
        blueprint_from_json(json.dumps(tree), "blueprint.json")


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 4096), other=st.integers(1, 4096))
def test_hash_differs_when_blueprints_differ(count: int, other: int) -> None:
    def sized(number: int) -> Blueprint:
        blueprint = blueprint_of()
        cluster = replace(blueprint.option.cluster, machine_count=number)
        return replace(blueprint, option=replace(blueprint.option, cluster=cluster))

    assert (blueprint_hash(sized(count)) == blueprint_hash(sized(other))) == (count == other)


def test_hash_treats_integers_and_equal_floats_alike() -> None:
    blueprint = blueprint_of()
    as_integer = replace(blueprint, option=replace(blueprint.option, step_s=2))
    as_float = replace(blueprint, option=replace(blueprint.option, step_s=2.0))
    assert blueprint_hash(as_integer) == blueprint_hash(as_float)
