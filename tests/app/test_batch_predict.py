"""Predictions of files agree with those of the prepared test rows, in every format."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.app.batch_predict import predict_file
from gpuyard.cli.main import main
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.encode import OneHot
from gpuyard.datasets.steps.impute import Impute
from gpuyard.datasets.steps.scale import ZScore
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.evaluate.bundled import bundle_predictions
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.registry.registry import Registry

CITIES = ("Oslo", "Rome", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registered model `m` with a fitted transform, and the rows of its test split."""
    folder = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, 300)
    frame = pl.DataFrame(
        {
            "age": [None if number % 7 == 0 else value for number, value in enumerate(age)],
            "city": [CITIES[number % 3] for number in range(300)],
            "kind": np.where(age > 42, "old", "young"),
        }
    )
    frame.write_parquet(folder / "rows.parquet")
    steps = (
        StepSpec(impute=Impute(columns=("age",))),
        StepSpec(zscore=ZScore(columns=("age",))),
        StepSpec(onehot=OneHot(columns=("city",))),
    )
    spec = DataSpec(
        source="rows.parquet", label="kind", steps=steps, split=SplitSpec(test_ratio=0.3)
    )
    data = prepare(spec, base=folder, out=folder / "data")
    train = TrainSpec(trees=TreesSpec(rounds=10, leaves=4))
    done = fit(TrainTask(train=train, data=str(data.folder), out=str(folder / "task")))
    Registry(home=Home(path=folder / "home")).register("m", Path(str(done.bundle)))
    expected = bundle_predictions(Path(str(done.bundle)), data, "test").outputs
    np.save(folder / "expected.npy", expected)
    from gpuyard.datasets.source_rows import source_rows

    source_rows(data, "test").split.drop("kind").write_parquet(folder / "new.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `ray`")
def test_ray_predicts_what_this_process_predicts(folder: Path, tmp_path: Path) -> None:
    home = folder / "home"
    predict_file("m", folder / "new.parquet", tmp_path / "local.parquet", home=Home(path=home))
    words = ["predict", "m", str(folder / "new.parquet"), "-o", str(tmp_path / "ray.parquet")]
    subprocess.run(  # Ray's daemons end with the process
        [sys.executable, "-m", "gpuyard", *words, "--engine", "ray", "--home", str(home)],
        check=True,
    )
    assert pl.read_parquet(tmp_path / "ray.parquet").equals(
        pl.read_parquet(tmp_path / "local.parquet")
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow"])
def test_file_is_predicted_like_the_prepared_rows(
    folder: Path, tmp_path: Path, suffix: str
) -> None:
    rows = pl.read_parquet(folder / "new.parquet")
    path = tmp_path / f"rows.{suffix}"
    {
        "parquet": rows.write_parquet,
        "csv": rows.write_csv,
        "jsonl": rows.write_ndjson,
        "arrow": rows.write_ipc,
    }[suffix](path)  # type: ignore[operator]
    home = Home(path=folder / "home")
    done = predict_file("m", path, tmp_path / "out.parquet", home=home, keep=True)
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert (done.rows, table.height) == (90, 90)
    assert table.columns == ["age", "city", "prediction", "p(old)", "p(young)"]
    expected = np.load(folder / "expected.npy")
    np.testing.assert_allclose(table.select("p(old)", "p(young)").to_numpy(), expected, atol=1e-6)


@pytest.mark.slow
def test_missing_columns_and_unknown_formats_are_named(folder: Path, tmp_path: Path) -> None:
    home = Home(path=folder / "home")
    pl.DataFrame({"age": [1.0]}).write_parquet(tmp_path / "few.parquet")
    with pytest.raises(InputError) as caught:
        predict_file("m", tmp_path / "few.parquet", tmp_path / "out.parquet", home=home)
    assert [problem.where for problem in caught.value.problems] == ["column city"]
    with pytest.raises(InputError):
        predict_file("m", folder / "new.parquet", tmp_path / "out.xlsx", home=home)
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.slow
def test_command_writes_a_csv_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    words = ["predict", "m", str(folder / "new.parquet"), "-o", str(out)]
    assert main([*words, "--home", str(folder / "home")]) == 0
    assert pl.read_csv(out).columns == ["prediction", "p(old)", "p(young)"]
