"""The bus bandwidth check that precedes a distributed training run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.app.bus_bandwidth import LARGE_BYTES, BusProbe, check_bus
from gpuyard.errors import ExternalError
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, Task, TaskStatus, handle_of

LARGE_S = 0.004
BUS_BYTES_PER_S = 2 * 3 / 4 * LARGE_BYTES / LARGE_S  # all-reduce over four processes


class FakeEngine:
    """An engine whose probe ends at once, with a fixed all-reduce time if it succeeds."""

    poll_s = 0.0

    def __init__(self, status: TaskStatus) -> None:
        self.final_status = status

    def submit(self, task: Task) -> Handle:
        self.task = task
        if self.final_status.state == "done":
            Path(task.argv[3]).write_text(json.dumps({"large_s": LARGE_S}), encoding="utf-8")
        return handle_of(EngineSpec(), task)

    def status(self, handle: Handle) -> TaskStatus:
        return self.final_status


def check(engine: FakeEngine, folder: Path, expected: float, least_ratio: float = 0.8) -> float:
    """Check a bus of four processes on two nodes."""
    probe = BusProbe(bus_bytes_per_s=expected, least_ratio=least_ratio)
    return check_bus(engine, probe, folder, nodes=2, processes=2)  # type: ignore[arg-type]


def test_bus_bandwidth_is_that_of_a_ring_all_reduce(tmp_path: Path) -> None:
    engine = FakeEngine(TaskStatus(state="done"))
    assert check(engine, tmp_path, BUS_BYTES_PER_S) == pytest.approx(BUS_BYTES_PER_S)
    assert (engine.task.nodes, engine.task.processes_per_node) == (2, 2)


def test_bus_below_the_minimum_ratio_raises_external_error(tmp_path: Path) -> None:
    engine = FakeEngine(TaskStatus(state="done"))
    expected = BUS_BYTES_PER_S / 0.8
    assert check(engine, tmp_path, expected, 0.79) == pytest.approx(BUS_BYTES_PER_S)
    with pytest.raises(ExternalError, match=r"80%.*81%") as raised:
        check(engine, tmp_path, expected, 0.81)
    assert raised.value.problem.where == "bus probe"


def test_failed_probe_raises_external_error_and_ignores_an_old_result(tmp_path: Path) -> None:
    (tmp_path / "bus.json").write_text(json.dumps({"large_s": 1e-9}), encoding="utf-8")
    engine = FakeEngine(TaskStatus(state="failed", reason="exit code 3"))
    with pytest.raises(ExternalError, match="exit code 3"):
        check(engine, tmp_path, 1.0)


@pytest.mark.slow
def test_two_local_processes_measure_their_bus(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    messages: list[str] = []
    measured = check_bus(
        open_engine(EngineSpec()),
        BusProbe(bus_bytes_per_s=1.0),
        tmp_path,
        nodes=1,
        processes=2,
        on_progress=messages.append,
    )
    assert measured > 1e6
    assert len(messages) == 1
