"""`gpuyard up` as a user types it: the screen, JSON, the report and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main

SERVE = Path(__file__).parents[2] / "examples" / "serve-small-cloud-run" / "workload.yaml"


def test_the_screen_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = str(tmp_path / "home")
    assert main(["up", str(SERVE), "--home", home, "--dry-run"]) == 0
    assert "nothing is spent" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()
    page = tmp_path / "report.html"
    assert main(["up", str(SERVE), "--home", home, "--until", "plan", "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "1 × g2-standard" in said
    assert f"report: {page}" in said
    assert "Option 1: 1 × g2-standard" in page.read_text(encoding="utf-8")
    assert main(["up", str(SERVE), "--home", home, "--until", "plan", "--json"]) == 0
    way = json.loads(capsys.readouterr().out)
    assert [(stage["name"], stage["state"]) for stage in way["stages"]] == [("check", "kept"), ("plan", "kept")]
    assert (tmp_path / "home" / "up" / "serve-small-cloud-run" / "report.html").exists()


def test_what_cannot_be_met_and_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "workload.yaml"
    text = SERVE.read_text(encoding="utf-8")
    file.write_text(text.replace("ttft: 1s", "ttft: 1us"), encoding="utf-8")
    assert main(["up", str(file)]) == 3
    assert "■" in capsys.readouterr().out
    assert main(["up", str(file), "--until", "deploy"]) == 2
    assert 'no stage "deploy" for this target' in capsys.readouterr().err
    file.write_text(text.replace("llama-3-8b", "lama-8b"), encoding="utf-8")
    assert main(["up", str(file)]) == 2
    assert 'no model named "lama-8b"' in capsys.readouterr().err
