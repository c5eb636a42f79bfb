"""`gpuyard measure` as a user types it; what it measures has tests of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app import measure as app
from gpuyard.app.probes import Shape, probes_of
from gpuyard.cli import main
from gpuyard.document import load_json
from gpuyard.perf.local import LocalProfile, Rate
from gpuyard.report import print_doing

RATE = Rate(kind="memory", by="numpy", size=1e8, value=1e10, spread_ratio=0.02)


def test_a_profile_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Trees alone, on two sizes, without the rates that take minutes.
    shapes = [Shape(trainer="trees", width=7, layers=1, batch=rows, inputs=5) for rows in (200, 400)]
    monkeypatch.setattr(app, "_rates", lambda *_, **__: iter((RATE,)))
    monkeypatch.setattr(app, "probes_of", lambda trainer, _, tell: probes_of(trainer, shapes, 2, tell))
    monkeypatch.setattr(app, "has", lambda name: name == "lightgbm")
    assert main(["measure", "--home", str(tmp_path), "--trainer", "trees"]) == 0
    said = capsys.readouterr().out
    assert "10GB/s" in said
    assert "trees" in said
    kept = load_json((tmp_path / "machine.json").read_text(), LocalProfile)
    assert [probe.label for probe in kept.probes] == [
        "1 layers of 7, batch 200, 5 features", "1 layers of 7, batch 400, 5 features",
    ]  # fmt: skip
    assert kept.fit("trees") is not None
    assert kept.serving is None
    assert kept.rates == (RATE,)


def test_every_short_training_is_told() -> None:
    shapes = [Shape(trainer="trees", width=7, layers=1, batch=rows, inputs=5) for rows in (200, 400)]
    told: list[tuple[str, int, int]] = []
    probes_of("trees", shapes, 2, lambda text, done=0, total=0: told.append((text, done, total)))
    assert told == [("short trainings of trees", done, 4) for done in range(5)]


def test_progress_rewrites_its_line_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_doing("short trainings", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    print_doing("storage")
    print_doing("short trainings", 1, 2)
    print_doing("short trainings", 2, 2)
    assert capsys.readouterr().err == "storage\n\r\x1b[Kshort trainings: 1 of 2\r\x1b[Kshort trainings: 2 of 2\n"


def test_a_home_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.cli.measure.measure_machine", lambda *_, **__: pytest.fail("it was measured"))
    (tmp_path / "file").touch()
    assert main(["measure", "--home", str(tmp_path / "file")]) == 4
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "name another --home" in said


def test_a_trainer_that_cannot_be_tried(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["measure", "--home", str(tmp_path / "none"), "--trainer", "forest"]) == 2
    assert '"forest" cannot be tried here' in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
