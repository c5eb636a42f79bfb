"""The search space in a workload file, and its error messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.learn.select.prune import is_clearly_worse, surviving_trials
from gpuyard.learn.select.space import grid_of, read_candidates, train_spec, trained_values
from gpuyard.learn.select.spec import PORTFOLIO, SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainers.network_settings import MlpSpec

SECTION = """
metric: roc_auc
trials: 20
candidates:
  - trees: {rounds: {from: 50, to: 400}, leaves: {from: 7, to: 63}, learning_rate: {from: 0.01, to: 0.3, scale: log}}
  - jax_mlp: {hidden: {of: [32, 64, 128]}, epochs: 3}
    seed: 5
limits: {latency: 5ms, memory: 500MB, cost: $2}
"""


def test_candidates_are_read_from_the_select_section() -> None:
    spec = decode(read_yaml(SECTION, "w.yaml").root, SelectSpec, Keys.BARE)
    assert (spec.limits.latency_s, spec.limits.memory_bytes, spec.limits.cost_usd) == (
        0.005,
        5e8,
        2.0,
    )
    trees, network = read_candidates(spec.candidates)
    assert trees.trainer == "trees"
    assert {span.name: (span.low, span.high, span.integer, span.log) for span in trees.spans} == {
        "rounds": (50, 400, True, False),
        "leaves": (7, 63, True, False),
        "learning_rate": (0.01, 0.3, False, True),
    }
    made = train_spec(trees, {"rounds": 60, "leaves": 9, "learning_rate": 0.1}, seed=3)
    assert made.trees is not None
    assert (made.trees.rounds, made.trees.leaves, made.trees.learning_rate, made.seed) == (
        60,
        9,
        0.1,
        3,
    )
    own = train_spec(network, {"hidden": 64}, seed=3)
    assert own.jax_mlp is not None
    assert (own.jax_mlp.hidden, own.jax_mlp.epochs, own.seed) == (64, 3, 5)


def test_search_starts_at_the_train_setting_if_a_candidate_contains_it() -> None:
    spec = decode(read_yaml(SECTION, "w.yaml").root, SelectSpec, Keys.BARE)
    trees, network = read_candidates(spec.candidates)
    inside = train_spec(trees, {"rounds": 60, "leaves": 9, "learning_rate": 0.1}, seed=8)
    assert dict(trained_values(trees, inside) or ()) == {
        "rounds": 60,
        "leaves": 9,
        "learning_rate": 0.1,
    }
    assert trained_values(trees, None) is None
    assert {span.name: span.middle for span in trees.spans}["rounds"] == 225  # where it begins then
    assert {span.name: span.middle for span in network.spans} == {"hidden": 32}
    outside = train_spec(trees, {"rounds": 10, "leaves": 9, "learning_rate": 0.1})
    assert trained_values(trees, outside) is None
    assert trained_values(network, inside) is None
    other_epochs = TrainSpec(jax_mlp=MlpSpec(hidden=64, epochs=4))  # not what the candidate fixes
    assert trained_values(network, other_epochs) is None
    assert dict(trained_values(network, TrainSpec(jax_mlp=MlpSpec(hidden=64, epochs=3))) or ()) == {
        "hidden": 64
    }


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"tres": {}}, 'did you mean "trees"'),
        ({"trees": {}, "jax_mlp": {}}, "2 trainers"),
        ({}, "0 trainers"),
        ({"trees": {"leafs": 3}}, 'did you mean "leaves"'),
        ({"trees": {"leaves": {"from": 63, "to": 7}}}, "63 is not below 7"),
        ({"trees": {"leaves": {"from": 7}}}, "two numbers"),
        ({"trees": {"leaves": {"from": 7.5, "to": 9}}}, "must be integers"),
        ({"trees": {"leaves": {"from": 1, "to": 9}}}, "1 is below 2"),
        ({"trees": {"leaves": {"of": [5, 1]}}}, "1 is below 2"),
        ({"trees": {"leaves": {"of": []}}}, "list of values"),
        ({"trees": {"leaves": {"of": [3], "from": 1}}}, "excludes other keys"),
        ({"trees": {"leaves": {"from": 3, "to": 9, "by": 1}}}, 'unknown key "by"'),
        ({"trees": {"l1": {"from": 0, "to": 9, "scale": "log"}}}, "cannot be log from 0"),
        ({"trees": {"ranking": {"from": 0, "to": 1}}}, "not numeric"),
        ({"trees": {"leaves": "many"}}, "many"),
        ({"trees": {"l1": {"from": 0, "to": 9, "step": -1}}}, "above 0"),
        ({"trees": 7}, "keys and values"),
    ],
)
def test_invalid_candidate_raises_input_error_with_its_location(tree: Plain, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_candidates((FrozenJson.of(tree),))
    assert "select" in caught.value.problems[0].where


def test_grid_contains_every_combination() -> None:
    (candidate,) = read_candidates(
        (
            FrozenJson.of(
                {
                    "trees": {
                        "leaves": {"of": [7, 15]},
                        "rounds": {"from": 10, "to": 30, "step": 10},
                        "l1": 1,
                    }
                }
            ),
        )
    )
    points = list(grid_of(candidate))
    assert len(points) == 6
    assert {(point["leaves"], point["rounds"]) for point in points} == {
        (a, b) for a in (7, 15) for b in (10, 20, 30)
    }
    (open_ended,) = read_candidates((FrozenJson.of({"trees": {"l1": {"from": 0, "to": 1}}}),))
    with pytest.raises(InputError, match="requires a step"):
        list(grid_of(open_ended))


@settings(max_examples=60)
@given(
    means=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12),
    earlier=st.lists(st.floats(-1e3, 1e3), max_size=12),
    rule=st.sampled_from(["none", "median", "halving"]),
    higher=st.booleans(),
)
def test_best_trial_survives_and_no_better_trial_is_pruned(
    means: list[float], earlier: list[float], rule: str, higher: bool
) -> None:
    running = dict(enumerate(means))
    survivors = surviving_trials(running, earlier, rule=rule, higher=higher)  # type: ignore[arg-type]
    sign = 1 if higher else -1
    stopped = set(running) - survivors
    assert all(
        sign * running[one] >= sign * running[other] for one in survivors for other in stopped
    )
    best = max(sign * mean for mean in [*means, *earlier])
    assert all(number in survivors for number, mean in running.items() if sign * mean == best)
    flipped = {number: -mean for number, mean in running.items()}
    assert (
        surviving_trials(flipped, [-mean for mean in earlier], rule=rule, higher=not higher)
        == survivors
    )  # type: ignore[arg-type]
    if rule == "none" or len(means) + len(earlier) < 4:
        assert survivors == set(running)


def test_trial_is_not_dropped_for_the_noise_of_its_folds() -> None:
    assert not is_clearly_worse([57.62], [52.0], higher=False)  # one fold
    assert not is_clearly_worse([57.6, 49.0], [52.0, 53.0], higher=False)  # better on the second
    assert not is_clearly_worse([0.90, 0.70], [0.91, 0.80], higher=True)
    assert is_clearly_worse([80.0, 82.0, 81.0], [52.0, 53.0, 55.0], higher=False)
    assert not is_clearly_worse([0.9, 0.8], [0.9, 0.8], higher=True)  # the best one itself


def test_default_portfolio_tries_large_and_small_trees_first() -> None:
    trees, small = read_candidates(PORTFOLIO)[:2]
    middles = [{span.name: span.middle for span in item.spans} for item in (trees, small)]
    specs = [train_spec(item, values) for item, values in zip((trees, small), middles, strict=True)]
    assert specs[0].trees is not None
    assert specs[1].trees is not None
    assert (specs[0].trees.leaves, specs[0].trees.rows_ratio) == (35, 1.0)
    assert (specs[1].trees.leaves, specs[1].trees.rows_ratio) == (10, 0.6)
