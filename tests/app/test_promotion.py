"""Promotion compares scores of the same rows only, and says why a version is a challenger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.app.evaluate import evaluate_model
from gpuyard.app.promotion import NewScores, choose_alias
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.source_rows import source_rows
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.scale import ZScore
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundled import rejudged_predictions
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.registry.bundle import Metric, read_bundle
from gpuyard.registry.interface import interface_difference
from gpuyard.registry.registry import ModelVersion, Registry

WORKLOAD = """\
task: pretraining
name: m
where: {provider: local}
pipeline:
  train: {trees: {}}
  data: {source: rows.csv}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows: `kind` follows from a and b with noise, `other` has three classes."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    noise = rng.normal(scale=0.8, size=400)
    folder = tmp_path_factory.mktemp("rows")
    pl.DataFrame(
        {
            "a": a,
            "b": b,
            "kind": np.where(a + b + noise > 0, "yes", "no"),
            "side": np.where(a - b + noise > 0, "yes", "no"),
            "other": np.array(["x", "y", "z"])[np.digitize(a, [-0.5, 0.5])],
        }
    ).write_csv(folder / "rows.csv")
    (folder / "workload.yaml").write_text(WORKLOAD, encoding="utf-8")
    return folder


def data_of(source: Path, *, seed: int = 0, label: str = "kind") -> PreparedDataset:
    labels = {"kind", "side", "other"}
    spec = DataSpec(
        source="rows.csv",
        label=label,
        ignore=tuple(sorted(labels - {label})),
        steps=(StepSpec(zscore=ZScore()),),
        split=SplitSpec(test_ratio=0.3, seed=seed),
    )
    return prepare(spec, base=source, out=source / f"data-{label}-{seed}")


def registered(
    source: Path, home: Home, data: PreparedDataset, *, rounds: int = 20, metrics: bool = True
) -> tuple[ModelVersion, NewScores]:
    """Train on the data, evaluate on its test split, register, and return the evidence."""
    out = home.path / f"train-{data.manifest.version}-{rounds}"
    train = TrainSpec(trees=TreesSpec(rounds=rounds, leaves=4))
    done = fit(TrainTask(train=train, data=str(data.folder), out=str(out), name="m"))
    bundle = Path(str(done.bundle))
    workload = source / "workload.yaml"
    card = evaluate_model(workload, str(bundle), home=home, data=data.folder).card
    scores = tuple(Metric(name=item.metric, value=item.value) for item in card.scores)
    lineage = replace(read_bundle(bundle).lineage, evaluated="test split" if metrics else "")
    version = Registry(home=home).register("m", bundle, scores if metrics else (), lineage)
    return version, NewScores(card=card if metrics else None, metric="log_loss", data=data)


def decided(home: Home, version: ModelVersion, evidence: NewScores) -> tuple[str, str]:
    alias, why = choose_alias(Registry(home=home), version, evidence)
    Registry(home=home).alias("m", alias, version.version)
    return alias, why


@pytest.mark.slow
def test_scores_of_the_same_rows_decide(source: Path, tmp_path: Path) -> None:
    home, data = Home(path=tmp_path / "home"), data_of(source)
    assert decided(home, *registered(source, home, data, rounds=5))[0] == "champion"
    assert decided(home, *registered(source, home, data, rounds=1))[0] == "challenger"
    assert decided(home, *registered(source, home, data, rounds=20))[0] == "champion"
    alias, why = decided(home, *registered(source, home, data, rounds=21, metrics=False))
    assert (alias, "not evaluated" in why) == ("challenger", True)


@pytest.mark.slow
def test_other_test_rows_are_predicted_by_both_versions(source: Path, tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    decided(home, *registered(source, home, data_of(source), rounds=20))
    # The same settings on another split: its score may be higher, on rows that are only easier.
    alias, why = decided(home, *registered(source, home, data_of(source, seed=1), rounds=21))
    assert alias == "challenger"
    assert "on the same 120 test rows" in why
    # A champion that knows nothing is replaced, because the paired test is significant.
    weak = Home(path=tmp_path / "weak")
    decided(weak, *registered(source, weak, data_of(source), rounds=1))
    alias, why = decided(weak, *registered(source, weak, data_of(source, seed=1), rounds=20))
    assert (alias, "paired bootstrap" in why) == ("champion", True)


@pytest.mark.slow
def test_other_labels_and_classes_are_never_compared(source: Path, tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    first, evidence = registered(source, home, data_of(source))
    decided(home, first, evidence)
    version, evidence = registered(source, home, data_of(source, label="other"))
    assert interface_difference(first.bundle, version.bundle)
    alias, why = decided(home, version, evidence)
    assert (alias, "clients of version 1 cannot use it" in why) == ("challenger", True)
    alias, why = decided(home, *registered(source, home, data_of(source, label="side")))
    assert (alias, 'predicts "side"' in why) == ("challenger", True)


@pytest.mark.slow
def test_raw_rows_give_the_predictions_of_prepared_rows(source: Path, tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    data = data_of(source)
    version, _ = registered(source, home, data)
    rows = source_rows(data, "test").split
    assert rows.columns == ["a", "b", "kind"]
    assert rows["kind"].to_list() == data.table("test")["kind"].to_list()
    other = data_of(source, seed=1)
    answers = rejudged_predictions(version.path, other, "test")
    # Rows that are in both test splits get the same probabilities from raw columns.
    own = rejudged_predictions(version.path, data, "test")
    place = {row: number for number, row in enumerate(source_rows(other, "test").split.iter_rows())}
    shared = [(number, place[row]) for number, row in enumerate(rows.iter_rows()) if row in place]
    assert len(shared) > 20
    for mine, theirs in shared:
        np.testing.assert_allclose(own.outputs[mine], answers.outputs[theirs], atol=1e-6)
