"""The `train` section."""

from __future__ import annotations

import json

import pytest

from gpuyard.document.decode import decode
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.document.schema import json_schema
from gpuyard.errors import InputError
from gpuyard.learn.spec import TRAINER_NAMES, TrainSpec, trainer_of
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainers.command.command_settings import EnvVarSpec
from gpuyard.learn.trainers.network_settings import MlpSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec


def read(text: str) -> TrainSpec:
    return decode(read_yaml(text, "workload.yaml").root, TrainSpec, Keys.BARE)


def test_train_section_is_read_with_its_settings() -> None:
    spec = read("seed: 3\nvalidation: 10%\ntrees: {rounds: 5, rows: 80%}\n")
    assert spec == TrainSpec(
        seed=3, validation_ratio=0.1, trees=TreesSpec(rounds=5, rows_ratio=0.8)
    )
    assert trainer_of(spec) == "trees"


def test_every_trainer_is_in_the_schema() -> None:
    assert set(TRAINER_NAMES) == {
        "trees",
        "sklearn",
        "jax_mlp",
        "jax_transformer",
        "torch_mlp",
        "torch_transformer",
        "torch_cnn",
        "torch_vit",
        "lora",
        "transformers",
        "command",
    }
    assert all(
        f'"{name}"' in json.dumps(json_schema(TrainSpec, Keys.BARE, "train"))
        for name in TRAINER_NAMES
    )


@pytest.mark.parametrize(
    ("text", "what"), [("seed: 1\n", "no trainer is set"), ("trees: {}\njax_mlp: {}\n", "both set")]
)
def test_exactly_one_trainer_must_be_set(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        trainer_of(read(text))


def test_wrong_keys_raise_input_error_with_their_location() -> None:
    with pytest.raises(InputError) as caught:
        read("trees: {round: 5}\njax_mlp: {hidden: 0}\n")
    assert "workload.yaml:1" in str(caught.value)
    assert 'did you mean "rounds"' in str(caught.value)
    assert "workload.yaml:2" in str(caught.value)


def test_tasks_survive_saving_and_loading() -> None:
    for spec in (
        TrainSpec(jax_mlp=MlpSpec(hidden=3, clip=0.5)),
        read("command: {run: [python, train.py], env: {A: b}}"),
        read(
            "jax_transformer: {shape: {layers: 1, hidden: 8, heads: 2, ffn: 16, vocab: 32}, steps: 3}"
        ),
    ):
        task = TrainTask(train=spec, data="data", out="out")
        assert load_json(dump_json(task), TrainTask) == task
    assert read("command: {run: [x], env: {A: b}}").command.env == (
        EnvVarSpec(name="A", value="b"),
    )  # type: ignore[union-attr]
