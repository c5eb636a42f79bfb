"""`gpuyard up`: tables, JSON, report page and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

SERVE = Path(__file__).parents[2] / "examples" / "serve-small-cloud-run" / "workload.yaml"


def test_up_prints_stages_and_writes_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "home")
    assert main(["up", str(SERVE), "--home", home, "--dry-run"]) == 0
    assert "nothing is spent" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()
    page = tmp_path / "report.html"
    assert main(["up", str(SERVE), "--home", home, "--until", "plan", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "1 × g2-standard" in out
    assert str(page) in out
    assert "Option 1: 1 × g2-standard" in page.read_text(encoding="utf-8")
    assert main(["up", str(SERVE), "--home", home, "--until", "plan", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(stage["name"], stage["state"]) for stage in report["stages"]] == [
        ("check", "cached"),
        ("plan", "cached"),
    ]
    assert (tmp_path / "home" / "up" / "serve-small-cloud-run" / "report.html").exists()


def test_infeasible_exits_with_3_and_invalid_input_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workload.yaml"
    text = SERVE.read_text(encoding="utf-8")
    file.write_text(text.replace("ttft: 10s", "ttft: 1us"), encoding="utf-8")
    assert main(["up", str(file)]) == 3
    assert "■" in capsys.readouterr().out
    assert main(["up", str(file), "--until", "deploy"]) == 2
    assert 'no stage "deploy" for this target' in capsys.readouterr().err
    file.write_text(text.replace("llama-3-8b", "lama-8b"), encoding="utf-8")
    assert main(["up", str(file)]) == 2
    assert 'no model named "lama-8b"' in capsys.readouterr().err
