"""Two processes measure what lies between them; a network that is too slow is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app import bus
from gpuyard.app.bus import BusProbe, check_bus
from gpuyard.errors import RefusedError
from gpuyard.jobs import Engine, EngineSpec, Status, Task, open_engine

pytest.importorskip("torch")


def test_a_slow_bus_is_refused_and_a_fast_one_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, told = open_engine(EngineSpec()), []
    measured = check_bus(engine, BusProbe(bus_bytes_per_s=1.0), tmp_path, nodes=1, processes=2, tell=told.append)
    assert measured > 1e6
    assert told[0].startswith("bus bandwidth ")
    found = (tmp_path / "bus.json").read_text(encoding="utf-8")

    def same(_engine: Engine, task: Task) -> Status:
        """The same measurement once more, without its processes."""
        Path(task.argv[3]).write_text(found, encoding="utf-8")
        return Status(state="done")

    monkeypatch.setattr(bus, "wait_for", same)
    for least_ratio, passes in ((0.79, True), (0.81, False)):
        probe = BusProbe(bus_bytes_per_s=measured / 0.8, least_ratio=least_ratio)
        if passes:
            assert check_bus(engine, probe, tmp_path, nodes=1, processes=2) == measured
        else:
            with pytest.raises(RefusedError, match=r"is 80% of the expected .*; at least 81% are asked for"):
                check_bus(engine, probe, tmp_path, nodes=1, processes=2)


def test_a_probe_that_does_not_come_to_its_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "torch.py").write_text("raise SystemExit(3)", encoding="utf-8")
    with pytest.raises(RefusedError, match="bus probe: exit code 3"):
        check_bus(open_engine(EngineSpec()), BusProbe(bus_bytes_per_s=1.0), tmp_path, nodes=1, processes=2)
