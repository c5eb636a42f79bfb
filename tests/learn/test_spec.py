"""The `train` section."""

from __future__ import annotations

import json

import pytest

from gpuyard.document import Keys, decode, dump_json, json_schema, load_json, read_yaml
from gpuyard.errors import InputError
from gpuyard.learn import TrainSpec, TrainTask, trainer_of
from gpuyard.learn.spec import NAMES, Mlp, Trees, Variable


def read(text: str) -> TrainSpec:
    return decode(read_yaml(text, "workload.yaml").root, TrainSpec, Keys.BARE)


def test_a_trainer_with_its_settings() -> None:
    spec = read("seed: 3\nvalidation: 10%\ntrees: {rounds: 5, rows: 80%}\n")
    assert spec == TrainSpec(seed=3, validation_ratio=0.1, trees=Trees(rounds=5, rows_ratio=0.8))
    assert trainer_of(spec) == "trees"


def test_every_trainer_has_a_key() -> None:
    assert set(NAMES) == {"trees", "jax_mlp", "jax_transformer", "torch_mlp", "torch_transformer", "lora", "command"}
    assert all(f'"{name}"' in json.dumps(json_schema(TrainSpec, Keys.BARE, "train")) for name in NAMES)


@pytest.mark.parametrize(
    ("text", "what"), [("seed: 1\n", "no trainer is set"), ("trees: {}\njax_mlp: {}\n", "both set")]
)
def test_exactly_one_trainer(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        trainer_of(read(text))


def test_wrong_keys_are_named_with_their_place() -> None:
    with pytest.raises(InputError) as caught:
        read("trees: {round: 5}\njax_mlp: {hidden: 0}\n")
    assert "workload.yaml:1" in str(caught.value)
    assert 'did you mean "rounds"' in str(caught.value)
    assert "workload.yaml:2" in str(caught.value)


def test_tasks_are_saved_whole() -> None:
    for spec in (
        TrainSpec(jax_mlp=Mlp(hidden=3, clip=0.5)),
        read("command: {run: [python, train.py], env: {A: b}}"),
        read("jax_transformer: {shape: {layers: 1, hidden: 8, heads: 2, ffn: 16, vocab: 32}, steps: 3}"),
    ):
        task = TrainTask(train=spec, data="data", out="out")
        assert load_json(dump_json(task), TrainTask) == task
    assert read("command: {run: [x], env: {A: b}}").command.env == (Variable(name="A", value="b"),)  # type: ignore[union-attr]
