"""`gpuyard provision --apply`, `--destroy` and `gpuyard sweep` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main

from ..fake.cloud import Cloud
from ..fake.server import serve
from .folders import render


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")


def test_without_yes_the_bill_is_shown_and_nothing_is_done(rendered: Path, capsys: Any) -> None:
    assert main(["provision", str(rendered), "--apply"]) == 2
    told = capsys.readouterr()
    for word in ("rate", "expected", "at most", "yard-1", "7 steps"):
        assert word in told.out
    assert "--yes --max-cost 300.0" in told.err  # 10 USD an hour for 30 hours
    assert not (rendered / "apply.jsonl").exists()


def test_yes_needs_a_cap_that_is_high_enough(rendered: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(rendered), "--apply", "--yes"]) == 2
        assert main(["provision", str(rendered), "--apply", "--yes", "--max-cost", "299"]) == 2
        assert fake.cloud.log == []
    told = capsys.readouterr().err
    assert "--max-cost: is missing" in told
    assert "less than the largest possible bill, 300.00 USD" in told


def test_apply_sweep_and_destroy(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    with serve(Cloud(delay=0)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "$300"]) == 0
        assert "made 7, stood already 0" in capsys.readouterr().out
        assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "300", "--json"]) == 0
        assert {row["end"] for row in json.loads(capsys.readouterr().out)["makings"]} == {"stood already"}
        assert main(["sweep", "--project", "yard-1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["leftovers"]
        assert len(found) == 7
        # Another rendering into the same folder would lose what stands.
        again = [
            "provision",
            str(tmp_path / "decision.json"),
            "--on",
            "compute-engine",
            "-o",
            str(folder),
            "--project",
            "p",
        ]
        assert main(again) == 4
        assert "of an earlier rendering stand" in capsys.readouterr().err
        assert main(["sweep", "--project", "yard-1", "--destroy"]) == 2
        plan = found[0]["stamp"]["plan_hash"]
        assert main(["sweep", "--project", "yard-1", "--plan", plan, "--destroy"]) == 2
        assert len(fake.cloud.resources) == 7
        assert main(["provision", str(folder), "--destroy"]) == 2
        assert main(["provision", str(folder), "--destroy", "--yes"]) == 0
        assert fake.cloud.resources == {}
        assert main(["sweep", "--project", "yard-1"]) == 0
        assert "0 resources" in capsys.readouterr().out
        assert main(again) == 0


def test_sweep_removes_what_a_lost_folder_made(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    with serve(Cloud(delay=0)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "300"]) == 0
        label = next(row for row in fake.cloud.resources.values() if "labels" in row)["labels"]["plan-hash"]
        assert main(["sweep", "--project", "yard-1", "--plan", label, "--destroy", "--yes"]) == 0
        assert fake.cloud.resources == {}
    assert "7 of 7 are gone" in capsys.readouterr().out


def test_a_failure_says_what_stands_and_rollback_takes_it_back(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    words = ["provision", str(folder), "--apply", "--yes", "--max-cost", "300"]
    with serve(Cloud(delay=0, stockouts=2)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(words) == 4
        assert "what was made stands" in capsys.readouterr().out
        assert main([*words, "--rollback"]) == 4
        assert fake.cloud.resources == {}
        assert main(words) == 0


def test_a_folder_that_is_none_is_told(tmp_path: Path, capsys: Any) -> None:
    assert main(["provision", str(tmp_path), "--apply"]) == 2
    assert main(["provision", str(tmp_path / "x.yaml"), "--apply"]) == 2
    assert main(["provision", str(tmp_path / "x.yaml")]) == 2
    told = capsys.readouterr().err
    assert "holds no rendered deployment" in told
    assert "is not a folder of rendered files" in told
    assert "--on: is missing" in told
