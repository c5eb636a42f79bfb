"""A training step in time: pipeline order, overlaps, stragglers, its traffic, and its trace."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.chip_kernels import calibrated, silicon_of, training_chip
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.layout import Layout
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.software import software
from gpuyard.perf.training import step_time
from gpuyard.simulate.flow.model import flow_model
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.step.phases import step_phases
from gpuyard.simulate.step.pipeline_schedule import orders
from gpuyard.simulate.step.step_work import StepWork, step_work
from gpuyard.simulate.step.timeline import Slow, simulate_step
from gpuyard.simulate.step.trace import trace_json

CATALOG = load_catalog()
C = read_calibration().constants


def work(stages=4, chunks=1, micro=8, **more) -> StepWork:
    usual = {
        "forward_s": (1.0,) * stages,
        "backward_s": (2.0,) * stages,
        "parts": (),
        "send_s": 0.0,
        "gradient_s": 0.0,
        "parameter_s": 0.0,
        "optimizer_s": 0.0,
        "other_s": 0.0,
        "overlaps": True,
    }
    return StepWork(stages=stages, chunks=chunks, micro_batches=micro, **(usual | more))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_every_pass_is_done_once(stages, chunks, groups) -> None:
    micro = groups * stages
    for order in orders(stages, chunks, micro):
        assert len(order) == len(set(order)) == 2 * micro * chunks
        seen = set()
        for task in order:
            assert not task.backward or task._replace(backward=False) in seen
            seen.add(task)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_pipeline_bubble_matches_textbook(stages, chunks, groups) -> None:
    micro = groups * stages
    each = 1.0 / chunks
    done = simulate_step(
        work(stages, chunks, micro, forward_s=(each,) * stages, backward_s=(2 * each,) * stages)
    )
    # Narayanan 2021, section 2.2: (p - 1) / v passes of a stage are lost
    assert done.step_s == pytest.approx(3.0 * micro + 3.0 * (stages - 1) / chunks)
    np.testing.assert_allclose(done.passes_s, 3.0 * micro)


def test_gradients_hide_behind_the_last_backward_pass() -> None:
    hidden = simulate_step(work(1, 1, 4, gradient_s=1.0))
    assert hidden.exposed_gradient_s == pytest.approx(0.25)  # the last of four buckets
    assert hidden.hidden_s == pytest.approx(0.75)
    late = simulate_step(work(1, 1, 4, gradient_s=1.0, overlaps=False))
    assert late.exposed_gradient_s == pytest.approx(1.0)
    huge = simulate_step(work(1, 1, 4, gradient_s=100.0))
    assert huge.exposed_gradient_s == pytest.approx(
        100.0 - 1.5
    )  # all but the backward pass after the first bucket
    gathered = simulate_step(work(1, 1, 4, parameter_s=2.0))
    assert gathered.exposed_parameter_s == pytest.approx(2.0 + 0.25 - 1.0)


def test_slow_chip_slows_entire_pipeline() -> None:
    base = simulate_step(work()).step_s
    slow = simulate_step(work(), (Slow(stage=2, ratio=1.5),)).step_s
    assert slow == pytest.approx(base + 0.5 * 3.0 * 8, rel=0.05)
    late = simulate_step(work(gradient_s=0.4), (Slow(stage=0, late_s=7.0),))
    assert late.step_s == pytest.approx(simulate_step(work(gradient_s=0.4)).step_s + 7.0)
    with pytest.raises(InputError, match="name a stage"):
        simulate_step(work(), (Slow(stage=9),))


@given(st.integers(1, 4), st.integers(1, 3), st.floats(1.0, 3.0))
@settings(max_examples=25, deadline=None)
def test_slower_is_never_faster_and_lanes_do_not_overlap(stages, chunks, ratio) -> None:
    plan = work(
        stages, chunks, 2 * stages, send_s=0.1, gradient_s=2.0, parameter_s=1.0, optimizer_s=0.3
    )
    base, slow = simulate_step(plan), simulate_step(plan, (Slow(stage=stages - 1, ratio=ratio),))
    assert slow.step_s >= base.step_s - 1e-9
    for stage in range(stages):
        for lane in ("compute", "network"):
            own = sorted(
                (e.begin_s, e.end_s) for e in slow.events if e.stage == stage and e.lane == lane
            )
            assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(own))


def case(**degrees):
    ones = (
        "tp",
        "pp",
        "dp",
        "cp",
        "ep",
        "expert_tensor_parallel",
        "virtual_pipeline",
        "micro_batch",
        "grad_accum",
        "shard_ranks",
    )
    found = {field.name: float(field.name in ones) for field in fields(Layout)} | degrees
    found["chips"] = found["tp"] * found["pp"] * found["dp"] * found["cp"]
    layout = Layout(**{name: np.asarray(value, dtype=float) for name, value in found.items()})
    chip = CATALOG.chip("h100-sxm")
    silicon = silicon_of(chip)
    assert silicon
    bare = training_chip(silicon, chip, "bf16", 8.0, 50e9)
    shape = next(
        row for row in CATALOG.models if row.name == degrees.get("model", "llama-3-70b")
    ).transformer
    assert shape
    soft = software(find_profile("megatron-bridge-26.06"), 1.0, nvl72=False)
    return (
        architecture(shape, 8192, False),
        layout,
        calibrated(bare, silicon, "bf16", read_calibration()),
        soft,
    )


def test_timeline_length_matches_step_model() -> None:
    for degrees in (
        {"tp": 4, "pp": 4, "dp": 4, "virtual_pipeline": 5, "grad_accum": 16, "shard_ranks": 4},
        {"tp": 8, "pp": 2, "dp": 8, "grad_accum": 8, "shard_ranks": 8},
        {"tp": 8, "dp": 16, "cp": 2, "grad_accum": 4, "shard_ranks": 32},
    ):
        arch, layout, chip, soft = case(**degrees)
        model = float(step_time(arch, layout, chip, soft, C).total_s)
        assert simulate_step(step_work(arch, layout, chip, soft, C)).step_s == pytest.approx(
            model, rel=0.06
        )


def test_step_runs_on_simulated_network() -> None:
    arch, layout, chip, soft = case(tp=8, pp=2, dp=4, grad_accum=8, shard_ranks=4)
    network = rail_network(
        8, 8, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=2, spines=4
    )
    model = flow_model(network, C, FlowSettings(balance="spray"))
    closed = float(step_time(arch, layout, chip, soft, C).total_s)
    assert float(step_time(arch, layout, chip, soft, C, model).total_s) == pytest.approx(
        closed, rel=0.02
    )
    tight = flow_model(
        rail_network(
            8, 8, nic_bits_per_s=50e9, scale_up_bits_per_s=3600e9, servers_per_leaf=2, spines=4
        ),
        C,
    )
    assert float(step_time(arch, layout, chip, soft, C, tight).total_s) > closed
    assert simulate_step(step_work(arch, layout, chip, soft, C, tight)).step_s > closed


def test_step_traffic_matches_layout() -> None:
    arch, layout, _, soft = case(tp=8, pp=2, dp=4, cp=2, grad_accum=8, shard_ranks=8)
    phases = {phase.label: phase for phase in step_phases(arch, layout, soft)}
    assert set(phases) == {
        "tensor parallel",
        "keys and values",
        "stages",
        "gradients",
        "parameters",
    }
    assert (
        phases["tensor parallel"].times == 4 * 40 * 8
    )  # four all-reduces a layer, forty layers, eight micro-batches
    assert phases["gradients"].ranks == 8
    assert all(phase.sent_bytes > 0 for phase in phases.values())


def test_trace_is_valid_perfetto_json() -> None:
    done = simulate_step(work(2, 1, 2, gradient_s=1.0, optimizer_s=0.5))
    rows = json.loads(trace_json(done))["traceEvents"]
    spans = [row for row in rows if row["ph"] == "X"]
    assert len(spans) == len(done.events)
    assert max(row["ts"] + row["dur"] for row in spans) == pytest.approx(done.step_s * 1e6)
    assert {row["args"]["name"] for row in rows if row["ph"] == "M"} >= {
        "stage 0",
        "compute",
        "network",
    }
    assert trace_json(replace(done)) == trace_json(done)
