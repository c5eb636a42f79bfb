"""All-reduce and training in a real lab, with a spine failure during training."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from gpuyard.app.lab import LabOptions, lab_up, measure_lab, predicted_s
from gpuyard.app.lab_run import LabRun, run_lab
from gpuyard.errors import InputError
from gpuyard.lab.saved import load


@pytest.fixture
def torch() -> None:
    """Skips without PyTorch, unless nothing may be skipped."""
    if importlib.util.find_spec("torch") is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1"
        pytest.skip("PyTorch is not installed")


def test_spine_failure_during_training_changes_no_loss(torch: None, saved: Path, name: str) -> None:
    lab_up(saved, LabOptions(name=name, bfd_interval_s=0.1))
    ran = run_lab(LabRun(name=name, steps=18, sizes_bytes=(4 << 20,), fail="spine-1"))
    (measured,) = ran.bandwidth
    rails, servers = 2, 4
    most = rails * 200e6 / 8  # bytes per second over the NICs of a server
    # The token buckets are full at the start, so the rate may exceed the limit.
    assert 0 < measured.measured_bus_bytes_per_s < 1.35 * most
    assert measured.predicted_s == pytest.approx(predicted_s(load(name), measured.size_bytes))
    assert ran.trained.servers_count == servers
    assert [step for step, _ in ran.trained.losses] == list(range(1, 19))
    assert ran.trained.losses[-1][1] < ran.trained.losses[0][1]
    assert ran.broken is not None
    assert ran.broken.largest_loss_difference < 1e-5
    assert [event.what for event in ran.broken.trained.happened] == ["spine-1 down", "spine-1 back"]


def test_invalid_lab_runs_raise_input_error(saved: Path, name: str) -> None:
    lab_up(saved, LabOptions(name=name))
    with pytest.raises(InputError, match="did you mean"):
        run_lab(LabRun(name=name, fail="spine-11"))
    with pytest.raises(InputError, match="no middle"):
        run_lab(LabRun(name=name, steps=2))
    with pytest.raises(InputError, match="not up"):
        measure_lab(f"{name}x", (1024,))
