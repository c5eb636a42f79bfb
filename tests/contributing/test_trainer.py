"""The recipe "Add a trainer" of CONTRIBUTING.md: one folder, its settings, one line of a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from .checkout import Checkout

# What a contributor writes in src/gpuyard/learn/trainers/toy/trainer.py.
TRAINER = '''
import numpy as np

from gpuyard.learn.trainer import TrainingSummary


class ToyTrainer:
    """Predicts the same value for every row."""

    def __init__(self, value):
        self.value = value

    def fit(self, data, run):
        return FittedToy(self.value, len(data.train.x))


class FittedToy:
    def __init__(self, value, rows):
        self.value = value
        self.summary = TrainingSummary(
            steps=1, step_s=1.0, samples_per_s=rows, memory_bytes=1.0, model_flop_per_step=0.0,
            parameters_count=1.0, device="cpu",
        )

    def predict(self, rows):
        return np.full(len(rows), self.value)

    def export(self, folder):
        return None


def make(spec):
    return ToyTrainer(spec.toy.value)
'''
# The settings in src/gpuyard/learn/trainers/toy/toy_settings.py, and their key in TrainSpec.
SETTINGS = '''
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToySpec:
    """A constant."""

    value: float = 1.0
'''
KEY = "    toy: ToySpec | None = None\n"
# The loader and the line of the list in learn/trainer_list.py.
LOADER = """
def _toy(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.toy.trainer import make

    return make(spec)


"""
LINE = '    TrainerEntry(name="toy", load=_toy, extra="run"),\n'
# What a user does with it.
USE = """
import numpy as np
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.document.read import read_yaml
from gpuyard.learn.evaluate.evaluation import evaluate
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.evaluate.splits import ArraySplits
from gpuyard.learn.select.space import read_candidates
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData

spec = decode(read_yaml("toy: {value: 3}", "w.yaml").root, TrainSpec, Keys.BARE)
rows = np.arange(12)
table = TabularData(
    x=np.zeros((12, 1), dtype=np.float32), y=rows.astype(float), names=("a",), problem="regression"
)
splits = ArraySplits(table=table, cuts=((rows[:6], rows[6:]), (rows[6:], rows[:6])))
card = evaluate(splits, spec, EvaluateSpec(folds=2), method="", workers=1).card
assert (card.trainer, card.score("mae").value) == ("toy", 3.5), card
(candidate,) = read_candidates((FrozenJson.of({"toy": {"value": {"from": 0, "to": 4}}}),))
assert candidate.trainer == "toy"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    copy = Checkout(tmp_path, "Add a trainer")
    copy.write("src/gpuyard/learn/trainers/toy/trainer.py", TRAINER)
    spec, trainers = "src/gpuyard/learn/spec.py", "src/gpuyard/learn/trainer_list.py"
    copy.write("src/gpuyard/learn/trainers/toy/toy_settings.py", SETTINGS.lstrip())
    imported = "from gpuyard.learn.trainers.trees.trees_settings import TreesSpec\n"
    copy.insert(spec, imported, "from gpuyard.learn.trainers.toy.toy_settings import ToySpec\n")
    copy.insert(spec, "    command: CommandSpec | None = None\n", KEY)
    copy.insert(trainers, "TRAINERS = (", LOADER.lstrip())
    copy.insert(trainers, '    TrainerEntry(name="command"', LINE)
    return copy


@pytest.mark.slow
def test_new_trainer_is_read_evaluated_and_searched(checkout: Checkout) -> None:
    checkout.run("-c", USE)
