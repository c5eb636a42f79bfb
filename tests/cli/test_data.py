"""`gpuyard data`: run, show and diff, as text and as JSON; wrong files exit with 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

TEXT = "source: sklearn:{name}\nlabel: target\nsteps:\n- deduplicate: {{}}\n- zscore: {{}}\nsplit: {{test: 0.2}}\n"


def data_file(tmp_path: Path, name: str) -> Path:
    """Write a file with a data section."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(TEXT.format(name=name))
    return path


def test_prepared_data_is_shown_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    iris, wine = data_file(tmp_path, "iris"), data_file(tmp_path, "wine")
    assert main(["data", "run", str(iris), "-o", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "150 in = 149 out + 1 dropped + 0 quarantined" in out
    assert "classes 0, 1, 2" in out
    assert main(["data", "run", str(wine), "-o", str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "target"
    assert main(["data", "show", str(tmp_path / "a")]) == 0
    assert "petal_width_cm" in capsys.readouterr().out
    assert main(["data", "show", str(iris), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 150
    assert main(["data", "diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    changes = {row["what"] for row in json.loads(capsys.readouterr().out)["differences"]}
    assert {"rows", "column alcohol", "source", "split train"} <= changes
    assert main(["data", "diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert "no difference" in capsys.readouterr().out


def test_data_section_of_a_workload_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "work.yaml"
    path.write_text(
        "task: pretraining\npipeline:\n  data:\n    source: sklearn:iris\n    label: target\n"
    )
    assert main(["data", "run", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] == "classification"
    assert (tmp_path / ".gpuyard" / "data" / "work" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("files", "what", "fix"),
    [
        (
            ("workload.yaml", "README.md"),
            "is a folder with a workload file, not data",
            "name the file: {0}/workload.yaml",
        ),
        ((), "is a folder without files", "put data files there"),
        (("a.csv", "b.parquet"), "several formats: csv, parquet", 'such as "{0}/**/*.csv"'),
        (("a.csv.gz", "b.parquet"), "several formats: csv, parquet", 'such as "{0}/**/*.csv.gz"'),
        (("a.bin",), "holds no file of a known format", "use .arrow"),
        (
            ("manifest.json", "train.parquet"),
            "holds data that is already prepared",
            "`gpuyard data show {0}`",
        ),
    ],
)
def test_folder_without_data_exits_with_2_and_a_fix(
    files: tuple[str, ...], what: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    assert main(["data", "run", str(folder)]) == 2
    out = capsys.readouterr().err
    assert what in out
    assert fix.format(folder) in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: sklearn:irs\n", 'did you mean "sklearn:iris"'),
        ("source: nothing.csv\n", "no such file"),
        ("source: sklearn:iris\nlabel: tarjet\n", 'did you mean "target"'),
        (
            "source: sklearn:iris\nsplit: {test: 0.7, validation: 0.4}\n",
            "no rows are left to train on",
        ),
        ("source: sklearn:iris\nsplit: {stratify: true}\n", "there is no label"),
        ("task: pretraining\npipeline: {}\n", "no pipeline.data section"),
    ],
)
def test_wrong_data_section_exits_with_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert main(["data", "run", str(path), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
