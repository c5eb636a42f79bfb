"""Checkpoints survive kills, damage and full disks."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, read_events


def write(text: str):  # type: ignore[no-untyped-def]
    def into(folder: Path) -> None:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_text(text)

    return into


def read(folder: Path) -> str:
    return (folder / "inner" / "weights").read_text()


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(
        folder=tmp_path / "checkpoints", log=MetricsLog(path=tmp_path / "metrics.jsonl")
    )


def test_newest_checkpoint_is_restored_and_three_are_retained(checkpoints: Checkpoints) -> None:
    assert checkpoints.restore(read) is None
    for step in (5, 10, 100, 1000):
        checkpoints.save(step, write(f"step {step}"))
    assert checkpoints.steps() == (10, 100, 1000)
    assert checkpoints.restore(read) == (1000, "step 1000")


def test_repeated_step_replaces_its_checkpoint(checkpoints: Checkpoints) -> None:
    checkpoints.save(5, write("first"))
    checkpoints.save(5, write("second"))
    assert checkpoints.restore(read) == (5, "second")


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "no seal", "seal torn"])
def test_damaged_checkpoint_falls_back_to_the_previous_one(
    checkpoints: Checkpoints, damage: str
) -> None:
    for step in (10, 20):
        checkpoints.save(step, write(f"step {step}"))
    weights, seal = (
        checkpoints.folder / "20" / "inner" / "weights",
        checkpoints.folder / "20" / "seal.json",
    )
    match damage:
        case "changed":
            weights.write_text("step 2O")
        case "cut":
            weights.write_text("ste")
        case "missing":
            weights.unlink()
        case "no seal":
            seal.unlink()
        case _:
            seal.write_text('{"step": 20, "sha2')
    assert checkpoints.restore(read) == (10, "step 10")
    assert checkpoints.log is not None
    events = read_events(checkpoints.log.path)
    assert [(what, step) for what, step, _ in events] == [
        ("corrupt checkpoint", 20),
        ("resumed", 10),
    ]


def test_unfinished_checkpoint_is_removed(checkpoints: Checkpoints) -> None:
    checkpoints.save(10, write("whole"))
    write("half")(checkpoints.begin(20))
    assert checkpoints.restore(read) == (10, "whole")
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["10"]


def test_full_disk_raises_external_error_and_keeps_the_last_checkpoint(
    checkpoints: Checkpoints,
) -> None:
    checkpoints.save(10, write("whole"))

    def full(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ExternalError, match="No space left") as caught:
        checkpoints.save(20, full)
    assert "step 10 is intact" in str(caught.value)
    assert checkpoints.restore(read) == (10, "whole")
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["10"]
