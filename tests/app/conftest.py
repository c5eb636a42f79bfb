"""A small pipeline that runs once for many tests, and the profile of a measured machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuyard.app.measure import save_profile
from gpuyard.app.run import run_pipeline
from gpuyard.app.workspace import open_workspace
from gpuyard.home import Home
from gpuyard.perf.local.profile import (
    GemmTiming,
    MachineProfile,
    Probe,
    Rate,
    ServingProbe,
    TrainerFit,
)
from gpuyard.perf.local.step_work import GemmKind, trees_step_work

from .pipelines import IRIS, FinishedRun, assert_nothing_runs, stop_services


@pytest.fixture(scope="session")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    """Iris: trained, evaluated, registered and served."""
    path = tmp_path_factory.mktemp("iris") / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    home = Home.for_workload(path)
    try:
        yield FinishedRun(path=path, home=home, run=run_pipeline(open_workspace(path)))
    finally:
        stop_services(home)
        assert_nothing_runs(path.parent)


@pytest.fixture(scope="session")
def machine() -> MachineProfile:
    """A machine whose probes follow its fitted constants exactly."""
    fit = TrainerFit(
        trainer="trees",
        step_overhead_s=2e-5,
        layer_overhead_s=3e-6,
        gemm_ratio=0.0,
        activation_ratio=2.0,
        optimizer_ratio=1.5,
        error_ratio=0.05,
        base_memory_bytes=2e8,
        memory_ratio=1.0,
    )
    probes = tuple(
        Probe(
            trainer="trees",
            label=f"{rows} rows",
            work=work,
            memory_bytes=2e8 + work.activation_bytes / 3,
            step_s=time_s,
        )
        for rows, features, leaves in (
            (500, 10, 15),
            (500, 100, 31),
            (5000, 20, 31),
            (20000, 10, 15),
            (20000, 50, 63),
            (50000, 30, 31),
        )
        for work in (trees_step_work(rows, features, leaves),)
        for time_s in (
            2e-5
            + 3e-6 * work.layers
            + (2.0 * work.activation_bytes + 1.5 * work.optimizer_bytes) / 1e10,
        )
    )
    return MachineProfile(
        name="bench",
        processor="a processor",
        cores_count=2,
        memory_bytes=8e9,
        measured_at="2026-01-01T00:00:00+00:00",
        versions=(),
        probes=probes,
        fits=(fit,),
        rates=(
            Rate(kind="memory", by="numpy", size=1e8, value=1e10, spread_ratio=0.02),
            Rate(
                kind="product", by="jax", dtype="float32", size=1024, value=5e10, spread_ratio=0.02
            ),
        ),
        serving=ServingProbe(
            request_s=1e-4, value_s=1e-7, flop_s=1e-10, visit_s=1e-8, error_ratio=0.1
        ),
    )


@pytest.fixture
def measured(machine: MachineProfile) -> Callable[[Home], Home]:
    """Return a function that saves the machine's profile in a state directory."""
    fits = tuple(replace(machine.fits[0], trainer=name) for name in ("trees", "jax_mlp"))
    rates = (*machine.rates, replace(machine.rates[0], by="jax"))
    kinds: tuple[GemmKind, ...] = ("forward", "input", "weight")
    timings = tuple(
        GemmTiming(
            kind=kind, by="jax", rows=32, inputs=32, outputs=32, time_s=1e-5, spread_ratio=0.02
        )
        for kind in kinds
    )
    profile = replace(machine, fits=fits, rates=rates, timings=timings)

    def save(home: Home) -> Home:
        save_profile(profile, home)
        return home

    return save
