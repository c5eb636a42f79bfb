"""Error bars of training and collective predictions."""

from __future__ import annotations

import typing
from dataclasses import replace

from gpuyard.perf.chip_kernels import read_silicon
from gpuyard.perf.error_bars import (
    RunKind,
    collective_error_ratio,
    run_kind,
    training_error_ratio,
)
from gpuyard.perf.profiles import find_profile

H100 = next(silicon for silicon in read_silicon() if silicon.name == "h100")
MEASURED, UNMEASURED = find_profile("megatron-bridge-26.06"), find_profile("unknown-gpu")


def test_every_kind_of_run_has_error_bar() -> None:
    ratios = {kind: training_error_ratio(kind) for kind in typing.get_args(RunKind)}
    assert all(0.0 < ratio < 1.0 for ratio in ratios.values())
    assert max(ratios, key=lambda kind: ratios[kind]) == "uncalibrated"
    assert 0.0 < collective_error_ratio() < 1.0


def test_error_bars_widen_with_distance_from_measured_runs() -> None:
    unmeasured_chip = replace(H100, calibrated=False)
    kinds = [
        run_kind(H100, MEASURED, moe=False),
        run_kind(H100, UNMEASURED, moe=False),
        run_kind(unmeasured_chip, MEASURED, moe=False),
    ]
    assert kinds == ["dense", "stack-dense", "uncalibrated"]
    ratios = [training_error_ratio(kind) for kind in kinds]
    assert ratios == sorted(set(ratios))
    assert run_kind(H100, MEASURED, moe=True) == "moe"
    assert run_kind(H100, MEASURED, moe=True, unseen=True) == "stack-moe"
