"""`gpuyard evaluate`: scores, page and JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main


@pytest.mark.slow
def test_evaluate_prints_scores_and_writes_page(
    iris_folder: Path, capsys: pytest.CaptureFixture[str], run_json: Callable[..., Any]
) -> None:
    file, page = str(iris_folder / "iris.yaml"), iris_folder / "scores.html"
    assert main(["evaluate", file, "--workers", "1", "--html", str(page)]) == 0
    assert "petal_length_cm" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") >= 4
    assert "http://" not in text.replace("http://www.w3.org", "")
    card = run_json("evaluate", file, "--workers", "1")["card"]
    assert card["scores"][0]["value"] > 0.8


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["nowhere.yaml", "--against", "a"], "--model"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str], where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *words, "--home", str(tmp_path)]) == 2
    assert where in capsys.readouterr().err
