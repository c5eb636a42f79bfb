"""`gpuyard models`: register, promote, compare, export and delete versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home
from gpuyard.learn.fit import fit
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask, read_task, write_task
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.registry.registry import Registry


@pytest.mark.slow
def test_versions_from_import_to_deletion(
    iris_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    run_json: Callable[..., Any],
) -> None:
    data = str(iris_folder / ".gpuyard" / "data" / "iris")
    home = Home(path=tmp_path / "home")
    at = ["--home", str(home.path)]
    assert main(["models", *at]) == 0
    assert "no models" in capsys.readouterr().out
    for rounds in (1, 10):
        task = TrainTask(
            train=TrainSpec(trees=TreesSpec(rounds=rounds, min_rows=5)),
            data=data,
            out=str(tmp_path / str(rounds)),
        )
        result = fit(read_task(write_task(task)))
        assert result.bundle is not None
        assert main(["models", "import", result.bundle, "--name", "iris", *at]) == 0
    assert main(["models", "promote", "iris", "1", *at]) == 0
    rows = run_json("models", "iris", *at)["models"]
    assert [(row["version"], row["aliases"]) for row in rows] == [(1, ["champion"]), (2, [])]
    assert main(["models", "compare", "iris/1", "iris/2", *at]) == 0
    assert "trees.rounds" in capsys.readouterr().out
    assert main(["models", "card", "iris", *at]) == 0
    assert capsys.readouterr().out.startswith("# iris, version 1")
    assert main(["models", "show", "iris@champion", *at]) == 0
    assert "digest" in capsys.readouterr().out
    assert main(["models", "export", "iris/2", str(tmp_path / "out"), *at]) == 0
    assert (tmp_path / "out" / "model.onnx").is_file()
    assert main(["models", "export", "iris/2", str(tmp_path / "out"), *at]) == 2
    words = [
        "evaluate",
        str(iris_folder / "iris.yaml"),
        "--data",
        data,
        "--model",
        "iris/2",
        "--against",
        "iris@champion",
        *at,
    ]
    report = run_json(*words)
    assert report["against"] == "iris@champion"
    (first, _) = report["comparisons"]
    assert (first["metric"], first["test"]) == ("accuracy", "mcnemar")
    assert main(["models", "delete", "iris", "1", *at]) == 2
    assert main(["models", "delete", "iris", "2", *at]) == 0
    assert main(["models", "tidy", *at]) == 0
    assert [version.version for version in Registry(home=home).versions("iris")] == [1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["models", "promote", "iris"], "write promote NAME VERSION [ALIAS]"),
        (["models", "promote", "iris", "x"], "is not a number"),
        (["models", "shw", "iris"], 'no subcommand named "shw"'),
        (["models", "mirror"], "add --mlflow"),
        (["models", "mirror", "--mlflow", "databricks"], "is not a server address"),
        (["models", "nowhere"], "is not registered"),
        (["models", "import", "x"], "add --name NAME"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--home", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("version", ["9" * 24, "9" * 5000])
def test_version_beyond_64_bits_exits_with_2(tmp_path: Path, version: str) -> None:
    assert main(["models", "show", f"iris/{version}", "--home", str(tmp_path / "home")]) == 2
