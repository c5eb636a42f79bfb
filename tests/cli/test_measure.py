"""`gpuyard measure`: the saved profile, and errors before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app import measure as app
from gpuyard.app.training_probes import ProbeShape, probes_of
from gpuyard.cli.main import main
from gpuyard.document.encode import load_json
from gpuyard.perf.local.profile import MachineProfile, Rate

RATE = Rate(kind="memory", by="numpy", size=1e8, value=1e10, spread_ratio=0.02)


@pytest.mark.slow
def test_profile_is_printed_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Trees only, two sizes, without the benchmarks that take minutes.
    shapes = [
        ProbeShape(trainer="trees", width=7, layers=1, batch=rows, inputs=5) for rows in (200, 400)
    ]
    monkeypatch.setattr(app, "_rates", lambda *_, **__: iter((RATE,)))
    monkeypatch.setattr(
        app, "probes_of", lambda trainer, _, on_progress: probes_of(trainer, shapes, 2, on_progress)
    )
    monkeypatch.setattr(app, "has", lambda name: name == "lightgbm")
    assert main(["measure", "--home", str(tmp_path), "--trainer", "trees"]) == 0
    out = capsys.readouterr().out
    assert "10GB/s" in out
    assert "trees" in out
    profile = load_json((tmp_path / "machine.json").read_text(), MachineProfile)
    assert [probe.label for probe in profile.probes] == [
        "1 layers of 7, batch 200, 5 features",
        "1 layers of 7, batch 400, 5 features",
    ]
    assert profile.fit("trees") is not None
    assert profile.serving is None
    assert profile.rates == (RATE,)


def test_unwritable_home_exits_with_4_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gpuyard.app.measure.measure_machine", lambda *_, **__: pytest.fail("measured")
    )
    (tmp_path / "file").touch()
    assert main(["measure", "--home", str(tmp_path / "file")]) == 4
    assert "use another --home" in capsys.readouterr().err


def test_unknown_trainer_exits_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["measure", "--home", str(tmp_path / "none"), "--trainer", "forest"]) == 2
    assert '"forest" cannot be tried here' in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
