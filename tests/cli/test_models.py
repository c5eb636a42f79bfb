"""`gpuyard evaluate`, `select` and `models`, from the words to the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.home import Home
from gpuyard.learn import TrainTask, fit, read_task, write_task
from gpuyard.learn.spec import TrainSpec, Trees
from gpuyard.registry import Registry

WORKLOAD = """
task: pretraining
name: iris
where: {provider: local}
pipeline:
  data:
    source: sklearn:iris
    label: target
    steps:
      - zscore: {columns: ["*"]}
    split: {test: 0.3, stratify: true, seed: 1}
  train: {trees: {rounds: 5, leaves: 4}}
  evaluate: {folds: 2, metrics: [accuracy, roc_auc], slices: [petal_length_cm], resamples: 50}
  select:
    metric: log_loss
    trials: 3
    candidates:
      - trees: {rounds: {of: [2, 8]}, leaves: {from: 2, to: 8}, min_rows: 5}
    limits: {latency: 1s, memory: 4GB}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workload file; its data is prepared by the first command."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "iris.yaml").write_text(WORKLOAD)
    return folder


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What a command says in JSON."""
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_evaluate(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = place / "scores.html"
    assert main(["evaluate", str(place / "iris.yaml"), "--workers", "1", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "2 folds, stratified" in out
    assert "petal_length_cm" in out
    text = page.read_text(encoding="utf-8")
    for words in ("ROC", "Precision and recall", "Confusion", "Calibration", "Loss while training", "Slices", "<svg"):
        assert words in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    card = answer(["evaluate", str(place / "iris.yaml"), "--workers", "1"], capsys)["card"]
    assert isinstance(card, dict)
    assert card["scores"][0]["value"] > 0.8  # type: ignore[index,call-overload,operator]


def test_select_and_what_it_rejects(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = place / "choice.html"
    assert main(["select", str(place / "iris.yaml"), "--workers", "1", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "chosen: trial" in out
    assert "99 of 100 within" in out
    assert "why not" in out
    assert "Rejected" in page.read_text(encoding="utf-8")
    tight = place / "tight.yaml"
    tight.write_text(WORKLOAD.replace("memory: 4GB", "size: 10B"))
    assert main(["select", str(tight), "--data", str(place / ".gpuyard" / "data" / "iris"), "--workers", "1"]) == 3
    assert "infeasible: limits.size" in capsys.readouterr().out


def test_models_from_registration_to_deletion(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(path=place / ".gpuyard")
    at = ["--home", str(home.path)]
    assert main(["models", *at]) == 0
    assert "no models" in capsys.readouterr().out
    for rounds in (1, 10):
        task = TrainTask(
            train=TrainSpec(trees=Trees(rounds=rounds, min_rows=5)),
            data=str(home.data / "iris"),
            out=str(place / str(rounds)),
        )
        result = fit(read_task(write_task(task)))
        assert result.bundle is not None
        assert main(["models", "import", result.bundle, "--name", "iris", *at]) == 0
    assert main(["models", "promote", "iris", "1", *at]) == 0
    assert "iris/1 is now champion" in capsys.readouterr().out
    listed = answer(["models", "iris", *at], capsys)["models"]
    assert isinstance(listed, list)
    assert [(item["version"], item["aliases"]) for item in listed] == [(1, ["champion"]), (2, [])]  # type: ignore[index,call-overload]
    assert main(["models", "compare", "iris/1", "iris/2", *at]) == 0
    assert "trees.rounds" in capsys.readouterr().out
    assert main(["models", "card", "iris", *at]) == 0
    assert capsys.readouterr().out.startswith("# iris, version 1")
    assert main(["models", "show", "iris@champion", *at]) == 0
    assert "digest" in capsys.readouterr().out
    assert main(["models", "export", "iris/2", str(place / "out"), *at]) == 0
    assert (place / "out" / "model.onnx").is_file()
    assert main(["models", "export", "iris/2", str(place / "out"), *at]) == 2
    words = ["evaluate", str(place / "iris.yaml"), "--model", "iris/2", "--against", "iris@champion", *at]
    judged = answer(words, capsys)
    assert judged["against"] == "iris@champion"
    (first, _) = judged["comparisons"]  # type: ignore[misc]
    assert (first["metric"], first["test"]) == ("accuracy", "mcnemar")  # type: ignore[index,call-overload]
    assert main(["models", "delete", "iris", "1", *at]) == 2
    assert main(["models", "delete", "iris", "2", *at]) == 0
    assert main(["models", "tidy", *at]) == 0
    assert [version.version for version in Registry(home=home).versions("iris")] == [1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["models", "promote", "iris"], "write promote NAME VERSION [ALIAS]"),
        (["models", "promote", "iris", "x"], "is not a number"),
        (["models", "shw", "iris"], 'no action named "shw"'),
        (["models", "mirror"], "add --mlflow"),
        (["models", "mirror", "--mlflow", "databricks"], "is not the address of a server"),
        (["models", "nowhere"], "is not registered"),
        (["models", "import", "x"], "add --name NAME"),
        (["evaluate", "nowhere.yaml"], "nowhere.yaml"),
        (["evaluate", "nowhere.yaml", "--against", "a"], "there is no --model"),
        (["select", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_wrong_words_are_told(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--home", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_a_cost_limit_needs_a_priced_machine(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / "cost.yaml"
    file.write_text(WORKLOAD.replace("limits: {latency: 1s, memory: 4GB}", "limits: {cost: $1}"))
    assert main(["select", str(file), "--data", str(place / ".gpuyard" / "data" / "iris")]) == 2
    assert "select.limits.cost" in capsys.readouterr().err
