"""`gpuyard select`: the chosen trial, and limits that cannot be met."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.cli.main import main


def limited(folder: Path, name: str, limits: str) -> str:
    """Write the iris workload with other limits and return its path."""
    text = (folder / "iris.yaml").read_text(encoding="utf-8")
    path = folder / name
    path.write_text(text.replace("{latency: 1s, memory: 4GB}", limits), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_select_prints_the_chosen_trial_and_the_rejected_ones(
    iris_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = iris_folder / "choice.html"
    file = str(iris_folder / "iris.yaml")
    assert main(["select", file, "--workers", "1", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "chosen: trial" in out
    assert "reason" in out
    assert "Rejected" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_limits_that_no_model_meets_exit_with_3(
    iris_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = limited(iris_folder, "tight.yaml", "{latency: 1s, size: 10B}")
    data = str(iris_folder / ".gpuyard" / "data" / "iris")
    assert main(["select", file, "--data", data, "--workers", "1"]) == 3
    assert "limits.size" in capsys.readouterr().out


def test_cost_limit_without_priced_machine_exits_with_2(
    iris_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = limited(iris_folder, "cost.yaml", "{cost: $1}")
    data = str(iris_folder / ".gpuyard" / "data" / "iris")
    assert main(["select", file, "--data", data]) == 2
    assert "select.limits.cost" in capsys.readouterr().err


def test_missing_file_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", "nowhere.yaml", "--home", str(tmp_path)]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err
