"""The commands `gpuyard provision --apply`, `--destroy` and `gpuyard sweep`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main
from gpuyard.errors import InputError
from gpuyard.provision.apply.journal import Journal, JournalEntry, check_nothing_deployed
from gpuyard.provision.apply.signing import created_key

from ..fake.cloud import Cloud
from ..fake.server import serve
from .folders import render


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(tmp_path_factory.mktemp("sample"), "a2-highgpu-1g", "single-node", "spot")


def test_apply_without_yes_shows_cost_and_does_nothing(rendered: Path, capsys: Any) -> None:
    assert main(["provision", str(rendered), "--apply"]) == 2
    output = capsys.readouterr()
    for word in ("rate", "expected", "at most", "yard-1", "7 steps"):
        assert word in output.out
    assert "--yes --max-cost 300.0" in output.err  # 10 USD per hour for 30 hours
    assert not (rendered / "apply.jsonl").exists()


def test_apply_requires_sufficient_max_cost(
    rendered: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(rendered), "--apply", "--yes"]) == 2
        assert main(["provision", str(rendered), "--apply", "--yes", "--max-cost", "299"]) == 2
        assert fake.cloud.log == []
    output = capsys.readouterr().err
    assert "--max-cost: is missing" in output
    assert "less than the maximum cost, 300.00 USD" in output


@pytest.mark.parametrize("damage", ["deleted", "emptied", "of another folder"])
def test_apply_without_its_journal_creates_and_deletes_nothing(
    damage: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    apply = ["provision", str(folder), "--apply", "--yes", "--max-cost", "$300"]
    destroy = ["provision", str(folder), "--destroy", "--yes"]
    journal = folder / "apply.jsonl"
    with serve(Cloud(delay=0)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(apply) == 0
        contents, calls = journal.read_bytes(), len(fake.cloud.log)
        if damage == "deleted":
            journal.unlink()
        elif damage == "emptied":
            journal.write_bytes(b"")
        else:
            other = Journal.open(tmp_path / "apply.jsonl", created_key())
            other.append(JournalEntry(event="begin"))
            other.close()
            shutil.copy(tmp_path / "apply.jsonl", journal)
        for words in (apply, destroy):
            capsys.readouterr()
            assert main(words) == 2
            error = capsys.readouterr().err
            assert str(journal) in error
            assert "gpuyard sweep" in error
        assert len(fake.cloud.log) == calls
        with pytest.raises(InputError, match="is missing, empty or another one"):
            check_nothing_deployed(folder)
        journal.write_bytes(contents)
        assert main(destroy) == 0
        assert fake.cloud.resources == {}
        journal.unlink()
        check_nothing_deployed(folder)  # nothing is left that it could list


def test_apply_sweep_and_destroy_round_trip(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    with serve(Cloud(delay=0)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "$300"]) == 0
        assert "7 created, 0 already existed" in capsys.readouterr().out
        assert (
            main(["provision", str(folder), "--apply", "--yes", "--max-cost", "300", "--json"]) == 0
        )
        assert {row["outcome"] for row in json.loads(capsys.readouterr().out)["makings"]} == {
            "already existed"
        }
        assert main(["sweep", "--project", "yard-1", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["leftovers"]
        assert len(found) == 7
        # Rendering into the same folder again would orphan the resources.
        blueprint = shutil.copy(folder / "blueprint.json", tmp_path)
        again = [
            "provision",
            blueprint,
            "--on",
            "compute-engine",
            "-o",
            str(folder),
            "--project",
            "p",
        ]
        assert main(again) == 4
        assert "of an earlier rendering still exist" in capsys.readouterr().err
        assert main(["sweep", "--project", "yard-1", "--destroy"]) == 2
        plan = found[0]["labels"]["plan_hash"]
        assert main(["sweep", "--project", "yard-1", "--plan", plan, "--destroy"]) == 2
        for short in (plan[:3], "x", plan[:15]):  # would match other plans
            words = ["sweep", "--project", "yard-1", "--plan", short, "--destroy", "--yes"]
            assert main(words) == 2
        assert len(fake.cloud.resources) == 7
        assert main(["provision", str(folder), "--destroy"]) == 2
        assert main(["provision", str(folder), "--destroy", "--yes"]) == 0
        assert fake.cloud.resources == {}
        assert main(["sweep", "--project", "yard-1"]) == 0
        assert "0 resources" in capsys.readouterr().out
        assert main(again) == 0


def test_sweep_deletes_resources_of_lost_folder(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    with serve(Cloud(delay=0)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(["provision", str(folder), "--apply", "--yes", "--max-cost", "300"]) == 0
        label = next(row for row in fake.cloud.resources.values() if "labels" in row)["labels"][
            "plan-hash"
        ]
        assert main(["sweep", "--project", "yard-1", "--plan", label, "--destroy", "--yes"]) == 0
        assert fake.cloud.resources == {}
    assert "7 of 7 deleted" in capsys.readouterr().out


def test_failed_apply_reports_remaining_resources_and_rolls_back(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = render(tmp_path, "a2-highgpu-1g", "single-node", "spot")
    words = ["provision", str(folder), "--apply", "--yes", "--max-cost", "300"]
    with serve(Cloud(delay=0, stockouts=2)) as fake:
        monkeypatch.setenv("GPUYARD_ENDPOINT", fake.url)
        assert main(words) == 4
        assert "the created resources remain" in capsys.readouterr().out
        assert main([*words, "--rollback"]) == 4
        assert fake.cloud.resources == {}
        assert main(words) == 0


def test_apply_of_unrendered_folder_is_input_error(tmp_path: Path, capsys: Any) -> None:
    assert main(["provision", str(tmp_path), "--apply"]) == 2
    assert main(["provision", str(tmp_path / "x.yaml"), "--apply"]) == 2
    assert main(["provision", str(tmp_path / "x.yaml")]) == 2
    output = capsys.readouterr().err
    assert "contains no rendered deployment" in output
    assert "is not a folder of rendered files" in output
    assert "--on: is missing" in output
