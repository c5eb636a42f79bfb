"""The decision: its hash, its file, what changed, and how its way of paying is chosen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.blueprint import (
    Blueprint,
    Proof,
    blueprint_from_json,
    blueprint_hash,
    blueprint_to_json,
    diff_blueprints,
    make_blueprint,
    ways_of,
)
from gpuyard.catalog import load_catalog
from gpuyard.document import Settings
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric, demand_for, design
from gpuyard.plan import Plan
from gpuyard.provision.samples import SHAPES, Sample, sample_blueprint

CATALOG = load_catalog()


def decision(name: str = "a3-megagpu-8g", shape: str = "multi-node", way: str | None = "spot") -> Blueprint:
    machine = next(row for row in CATALOG.machines if row.name == name)
    kind = next(item for item in SHAPES if item == shape)
    return sample_blueprint(Sample(machine=machine, shape=kind, way=way), CATALOG)  # type: ignore[arg-type]


def planned(blueprint: Blueprint) -> Plan:
    return Plan(workload="w", task="pretraining", options=(blueprint.option,), rejected=(), searched_count=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("machine", ["a3-megagpu-8g", "g2-standard-4", "ct6e-standard-4t"])
def test_saved_and_loaded_it_is_the_same(machine: str, shape: str) -> None:
    blueprint = decision(machine, shape)
    again = blueprint_from_json(blueprint_to_json(blueprint))
    assert again == blueprint
    assert blueprint_hash(again) == blueprint_hash(blueprint)
    assert blueprint_to_json(again) == blueprint_to_json(blueprint)


def test_a_fabric_and_proofs_are_saved_with_it() -> None:
    fabric = design(demand_for(next(row for row in CATALOG.machines if row.name == "dgx-h100"), 4), CATALOG)
    assert isinstance(fabric, Fabric)
    proof = Proof(kind="simulation", name="ring", what="0.4 s", numbers=Settings.of({"completion_s": 0.4}))
    blueprint = replace(decision("dgx-h100", way=None), fabric=fabric, proofs=(proof,))
    again = blueprint_from_json(blueprint_to_json(blueprint))
    assert again.fabric == fabric
    assert again.proofs == (proof,)
    assert any(change.what == "fabric" for change in diff_blueprints(decision("dgx-h100", way=None), blueprint))


def test_a_file_that_was_changed_is_refused() -> None:
    tree = json.loads(blueprint_to_json(decision()))
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
def test_the_hash_tells_decisions_apart(count: int, other: int) -> None:
    def sized(number: int) -> Blueprint:
        blueprint = decision()
        cluster = replace(blueprint.option.cluster, machine_count=number)
        return replace(blueprint, option=replace(blueprint.option, cluster=cluster))

    assert (blueprint_hash(sized(count)) == blueprint_hash(sized(other))) == (count == other)


def test_whole_numbers_have_one_spelling() -> None:
    blueprint = decision()
    one = replace(blueprint, option=replace(blueprint.option, step_s=2))
    two = replace(blueprint, option=replace(blueprint.option, step_s=2.0))
    assert blueprint_hash(one) == blueprint_hash(two)


def test_what_changed_is_said_in_words() -> None:
    before = decision()
    cluster = replace(before.option.cluster, machine_count=4)
    bill = replace(before.option.bills[0], usd=720.0, usd_per_hour=30.0, way="on-demand")
    after = replace(before, way="on-demand", option=replace(before.option, cluster=cluster, bills=(bill,)))
    said = [str(change) for change in diff_blueprints(before, after)]
    assert "machines: 2 → 4 (+100%)" in said
    assert "way of paying: spot → on-demand" in said
    assert "cost: $480 → $720 (+50%)" in said
    assert diff_blueprints(before, before) == ()


def test_a_diff_of_everything_is_cut() -> None:
    changes = diff_blueprints(decision("a3-megagpu-8g"), decision("ct6e-standard-4t", "service"))
    assert len(changes) == 41
    assert changes[0].what == "task"
    assert changes[-1].what == "and more"


def test_the_way_of_paying_is_the_cheapest_or_the_one_that_was_asked_for() -> None:
    blueprint = decision()
    dear = replace(blueprint.option.bills[0], way="on-demand", usd=1e6)
    plan = planned(replace(blueprint, option=replace(blueprint.option, bills=(dear, *blueprint.option.bills))))
    assert make_blueprint(blueprint.workload, plan, 1, CATALOG).way == "spot"
    assert make_blueprint(blueprint.workload, plan, 1, CATALOG, way="flex-start").way == "flex-start"
    with pytest.raises(InputError, match="there is no option 2"):
        make_blueprint(blueprint.workload, plan, 2, CATALOG)


def test_a_way_that_no_documentation_allows_is_refused() -> None:
    blueprint = decision("a4x-highgpu-4g", way="reservation")
    assert ways_of(blueprint.machine, blueprint.workload) == ("reservation",)
    with pytest.raises(InputError, match="cannot be had by spot"):
        make_blueprint(blueprint.workload, planned(blueprint), 1, CATALOG, way="spot")


def test_without_a_price_the_first_offer_is_taken() -> None:
    blueprint = decision("a4x-highgpu-4g", way="reservation")
    bare = replace(blueprint, option=replace(blueprint.option, bills=()))
    made = make_blueprint(bare.workload, planned(bare), 1, CATALOG)
    assert made.way == "reservation"
    assert made.usd_per_hour is None
    assert made.priced is None
