"""The step: its parts add up, faster hardware is never slower, and no speed-up is free."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.chip_kernels import calibrated, silicon_of, training_chip
from gpuyard.perf.collectives import ClosedForm, RankGroup
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.layout import Array, Layout
from gpuyard.perf.operators import model_flop_per_token
from gpuyard.perf.pipeline_parallel import stage_layers
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.software import software
from gpuyard.perf.training import StepTime, local_parameters, step_time
from gpuyard.plan.evaluate import layout_of
from gpuyard.plan.layouts import Space, parallel_layouts

from .cases import Case, case, cases, changed, layout, model, number, scaled

more = st.floats(1.0, 10.0)
DENSE = ("gpt-3-175b", "llama-3-8b", "llama-3-70b")
PEAK = ("gemm_flop_per_s", "bf16_flop_per_s")
ROUNDING = 1 + 1e-9
OF_LAYERS = (
    "matmul_s",
    "attention_s",
    "elementwise_s",
    "cast_s",
    "recompute_s",
    "launch_s",
    "tensor_parallel_s",
    "context_parallel_s",
    "expert_parallel_s",
)


@given(cases())
def test_parts_add_up_and_none_is_negative(drawn: Case) -> None:
    step = drawn.step()
    parts = [float(getattr(step, field.name)) for field in fields(StepTime)]
    assert float(step.total_s) == pytest.approx(sum(parts), rel=1e-12)
    assert np.isfinite(parts).all()
    assert min(parts) >= -1e-9 * float(step.total_s)
    assert step.total_s > 0.0


@given(cases(), more)
def test_more_peak_is_never_slower(drawn: Case, times: float) -> None:
    assert (
        replace(drawn, chip=scaled(drawn.chip, times, *PEAK)).step_s() <= drawn.step_s() * ROUNDING
    )


@given(cases(), more)
def test_more_memory_bandwidth_is_never_slower(drawn: Case, times: float) -> None:
    assert (
        replace(drawn, chip=scaled(drawn.chip, times, "hbm_bytes_per_s")).step_s()
        <= drawn.step_s() * ROUNDING
    )


@given(cases(), more, more)
def test_more_link_bandwidth_is_never_slower(drawn: Case, inside: float, outside: float) -> None:
    quick = scaled(scaled(drawn.chip, inside, "scaleup_bytes_per_s"), outside, "nic_bytes_per_s")
    assert replace(drawn, chip=quick).step_s() <= drawn.step_s() * ROUNDING


@given(cases(), more)
def test_more_memory_changes_no_time(drawn: Case, times: float) -> None:
    assert replace(drawn, chip=scaled(drawn.chip, times, "hbm_bytes")).step_s() == drawn.step_s()


@given(cases(models=DENSE))
def test_doubling_chips_and_batch_is_never_cheaper_than_ideal(drawn: Case) -> None:
    """The same work for each chip: a step as long, or longer. What is sharded stays over as many ranks."""
    twice = changed(
        drawn.layout, chips=float(drawn.layout.chips) * 2, dp=float(drawn.layout.dp) * 2
    )
    assert replace(drawn, layout=twice).step_s() * ROUNDING >= drawn.step_s()


@given(cases())
def test_sharding_further_saves_no_more_than_the_optimizer(drawn: Case) -> None:
    """With twice the ranks each updates (or fetches from the host) half as many weights; all else is as slow."""
    one = changed(drawn.layout, shard_ranks=float(drawn.layout.dp * drawn.layout.cp))
    two = changed(
        one,
        chips=float(one.chips) * 2,
        dp=float(one.dp) * 2,
        shard_ranks=float(one.shard_ranks) * 2,
    )
    before, after = replace(drawn, layout=one).step(), replace(drawn, layout=two).step()
    saved = float(before.optimizer_s - after.optimizer_s) + float(
        before.offload_s - after.offload_s
    )
    slack = 1.05  # stragglers are a share of the step, the optimizer with it
    assert float(after.total_s) >= float(before.total_s) - slack * max(saved, 0.0) - 1e-9 * float(
        before.total_s
    )


@given(cases(), st.integers(2, 10))
def test_larger_batch_takes_longer_but_not_per_sample(drawn: Case, times: int) -> None:
    large = replace(
        drawn, layout=changed(drawn.layout, grad_accum=float(drawn.layout.grad_accum) * times)
    )
    assert large.step_s() > drawn.step_s()
    assert large.step_s() <= times * drawn.step_s() * ROUNDING


@given(
    cases(),
    st.sampled_from(
        ("recompute_gemm", "recompute_attention", "recompute_elementwise", "recompute_comm")
    ),
)
def test_recomputation_costs_time(drawn: Case, what: str) -> None:
    none, full = changed(drawn.layout, **{what: 0.0}), changed(drawn.layout, **{what: 1.0})
    assert replace(drawn, layout=full).step_s() * ROUNDING >= replace(drawn, layout=none).step_s()


def test_recomputing_everything_costs_a_forward_pass() -> None:
    usual = case(tp=8, pp=8, dp=8, grad_accum=64)
    again = dict.fromkeys(("recompute_gemm", "recompute_attention", "recompute_elementwise"), 1.0)
    ratio = replace(usual, layout=changed(usual.layout, **again)).step_s() / usual.step_s()
    assert 1.2 < ratio < 4 / 3  # three passes become four; what is not a layer's stays


@given(cases())
def test_no_step_beats_the_peak(drawn: Case) -> None:
    spread = drawn.layout
    samples = float(spread.dp * spread.micro_batch * spread.grad_accum)
    flop = model_flop_per_token(drawn.arch) * float(drawn.arch.packed_sequence_tokens) * samples
    peak = float(spread.chips * np.maximum(drawn.chip.gemm_flop_per_s, drawn.chip.bf16_flop_per_s))
    assert flop / (drawn.step_s() * peak) < 1.0


@given(cases(models=DENSE))
def test_interleaving_shrinks_the_bubble(drawn: Case) -> None:
    plain = replace(drawn, layout=changed(drawn.layout, pp=8.0, virtual_pipeline=1.0)).step()
    dealt = replace(drawn, layout=changed(drawn.layout, pp=8.0, virtual_pipeline=2.0)).step()
    assert float(dealt.pipeline_bubble_s) == pytest.approx(float(plain.pipeline_bubble_s) / 2.0)


def test_pipeline_waits_for_its_slowest_stage() -> None:
    """(pp - 1) / micro-batches of the compute (Narayanan 2021, sect. 2.2), where the head is small."""
    arch = changed(model("gpt-3-175b"), vocab=1.0)
    one = replace(case(tp=8, pp=8, grad_accum=16), arch=arch).step()
    compute = sum(float(getattr(one, name)) for name in OF_LAYERS)
    assert float(one.pipeline_bubble_s) == pytest.approx(7 / 16 * compute, rel=0.01)


def test_stages_of_layers_that_do_not_divide() -> None:
    arch = model("gpt-3-175b")  # 96 layers
    for pp, most, last in ((1, 96, 96), (8, 12, 12), (14, 7, 6), (9, 11, 10)):
        found = stage_layers(arch, layout(pp=pp))
        assert [float(part) for part in found] == [most, last], (
            pp
        )  # 14: embedding and head are dealt as layers


def test_degrees_of_one_cost_nothing() -> None:
    step = case("llama-3-8b", "h100-sxm").step()
    for name in (
        "tensor_parallel_s",
        "context_parallel_s",
        "expert_parallel_s",
        "pipeline_bubble_s",
        "pipeline_send_s",
    ):
        assert getattr(step, name) == 0.0, name
    assert step.data_parallel_s == 0.0
    assert step.recompute_s == 0.0


@pytest.mark.parametrize(
    ("degree", "part", "name"),
    [
        ("tp", "tensor_parallel_s", "llama-3-8b"),
        ("cp", "context_parallel_s", "llama-3-8b"),
        ("pp", "pipeline_bubble_s", "llama-3-8b"),
        ("dp", "data_parallel_s", "llama-3-8b"),
        ("ep", "expert_parallel_s", "mixtral-8x7b"),
    ],
)
def test_each_degree_has_its_part(degree: str, part: str, name: str) -> None:
    degrees = {"dp": 8.0} if degree == "ep" else {}
    step = case(name, "h100-sxm", tokens=8192, **(degrees | {degree: 8.0})).step()
    assert getattr(step, part) > 0.0


def test_scalar_multiplies_device_time() -> None:
    usual = case(tp=8, pp=8, dp=8, grad_accum=64)
    slower = replace(usual, soft=changed(usual.soft, scalar=1.1))
    assert slower.step_s() == pytest.approx(1.1 * usual.step_s())


def test_tiny_layers_are_host_bound() -> None:
    tiny = case("llama-3.2-1b", "b200", profile="torchtitan-eager", tokens=128)
    compiled = replace(tiny, soft=changed(tiny.soft, graphs=1.0))
    assert tiny.step().launch_s > 0.0
    assert compiled.step().launch_s == 0.0
    slower = replace(tiny, soft=changed(tiny.soft, scalar=1.05))
    layers = [sum(float(getattr(one.step(), name)) for name in OF_LAYERS) for one in (tiny, slower)]
    assert layers[1] == pytest.approx(
        layers[0]
    )  # the host does not care how quick the device's kernels are


def test_host_memory_is_counted() -> None:
    """State is fetched and returned in the open; activations hide behind compute; an unknown link never ends."""
    usual = case("llama-3-70b", "h100-sxm", tokens=8192, tp=8, dp=4, shard_ranks=4, seq_parallel=1)
    assert usual.chip.host_bytes_per_s > 0.0
    assert usual.step().offload_s == 0.0
    state = replace(usual, layout=changed(usual.layout, offload_optimizer=1.0))
    weights = float(sum(local_parameters(usual.arch, usual.layout)))
    assert state.step().offload_s == pytest.approx(
        12 * weights / 4 / float(usual.chip.host_bytes_per_s)
    )
    frozen = replace(state, arch=changed(state.arch, trains_weights=0.0))
    assert frozen.step().offload_s == 0.0  # no state
    sent = replace(usual, layout=changed(usual.layout, offload_activation=1.0))
    slow = replace(sent, chip=scaled(sent.chip, 1e-3, "host_bytes_per_s"))
    assert 0.0 <= sent.step().offload_s < slow.step().offload_s
    unknown = changed(usual.chip, host_bytes_per_s=0.0)
    assert replace(usual, chip=unknown).step_s() == usual.step_s()
    assert replace(state, chip=unknown).step_s() > 1e12


def test_moe_recipes_enable_their_options() -> None:
    usual = case(
        "deepseek-v3",
        "gb300",
        precision="mxfp8",
        tokens=4096,
        pp=2,
        virtual_pipeline=2,
        dp=128,
        ep=64,
        grad_accum=32,
    )
    plain = replace(
        usual, soft=changed(usual.soft, deepep=0.0, moe_overlap=0.0, graphs=0.0, fused_experts=0.0)
    )
    once = replace(plain, soft=changed(plain.soft, deepep=1.0))
    assert (
        once.step().expert_parallel_s < plain.step().expert_parallel_s
    )  # a token goes once to each rank
    assert once.step().elementwise_s < plain.step().elementwise_s  # and is sorted less
    hidden = replace(plain, soft=changed(plain.soft, moe_overlap=1.0))
    assert hidden.step().expert_parallel_s < plain.step().expert_parallel_s
    one_kernel = replace(plain, soft=changed(plain.soft, fused_experts=1.0))
    assert one_kernel.step().cast_s < plain.step().cast_s
    captured = [
        replace(plain, soft=changed(plain.soft, graphs=share)).step_s()
        for share in (0.0, 0.3, 0.6, 1.0)
    ]
    assert captured == sorted(captured, reverse=True)
    biased = replace(plain, arch=changed(plain.arch, expert_bias=1.0))
    assert biased.step().elementwise_s > plain.step().elementwise_s
    extra = replace(plain, arch=changed(plain.arch, mtp=1.0))
    assert extra.step_s() > plain.step_s()


def test_expert_shared_by_chips() -> None:
    """As many products in all, a gather more."""
    whole, shared = (
        case("mixtral-8x7b", "h100-sxm", tp=8, dp=8, ep=8, expert_tensor_parallel=etp)
        for etp in (1.0, 8.0)
    )
    assert shared.step().expert_parallel_s > whole.step().expert_parallel_s
    assert shared.memory_bytes() < whole.memory_bytes()


def test_grid_matches_single_layouts() -> None:
    """A planner gives each axis its own dimension; terms are evaluated only on the axes that they depend on."""
    for name in ("gpt-3-175b", "deepseek-v3"):
        usual = case(name, "h100-sxm", tokens=4096)
        axes = {
            "tp": (1, 2, 8),
            "pp": (1, 2, 8),
            "dp": (1, 16),
            "micro_batch": (1, 4),
            "recompute_gemm": (0, 1),
        }
        shape = tuple(len(values) for values in axes.values())
        grid = {
            axis: np.array(values, dtype=np.float64).reshape(
                [-1 if i == j else 1 for j in range(len(axes))]
            )
            for i, (axis, values) in enumerate(axes.items())
        }
        chips = grid["tp"] * grid["pp"] * grid["dp"]
        spread = replace(
            usual.layout,
            **grid,
            chips=chips,
            shard_ranks=grid["dp"],
            virtual_pipeline=np.where(grid["pp"] > 1, 2, 1),
        )
        whole = step_time(usual.arch, spread, usual.chip, usual.soft, usual.constants)
        flat = Layout(
            **{
                f.name: np.broadcast_to(getattr(spread, f.name), shape).ravel().astype(float)
                for f in fields(Layout)
            }
        )
        column = step_time(usual.arch, flat, usual.chip, usual.soft, usual.constants)
        for field in fields(StepTime):
            part = np.broadcast_to(getattr(whole, field.name), shape).ravel()
            np.testing.assert_allclose(
                part, np.broadcast_to(getattr(column, field.name), part.shape), rtol=1e-12
            )
        assert whole.total_s.shape == shape
        alone = replace(
            usual,
            layout=Layout(**{f.name: number(getattr(flat, f.name)[-1]) for f in fields(Layout)}),
        )
        assert alone.step_s() == pytest.approx(float(column.total_s[-1]), rel=1e-12)


class _Free:
    """A network that takes no time."""

    def time_s(
        self, collective: str, size_bytes: Array, ranks: Array, group: RankGroup | None = None
    ) -> Array:
        """Nothing."""
        return np.zeros(np.broadcast_shapes(np.shape(size_bytes), np.shape(ranks)))


def test_any_network_model_serves_the_step() -> None:
    catalog, calibration = load_catalog(), read_calibration()
    chip = catalog.chip("h100-sxm")
    silicon, profile = silicon_of(chip), find_profile("nemo-25")
    shape = catalog.model("llama-3-70b").transformer
    assert silicon
    assert shape
    bare = calibrated(training_chip(silicon, chip, "bf16", 8, 50e9), silicon, "bf16", calibration)
    found = parallel_layouts(
        shape, 8192, 256, (256,), 8, Space(tp=(4,), pp=(4,), cp=(2,), virtual_stages=(1,))
    )
    inputs = (
        architecture(shape, 8192, False),
        layout_of(found, 8.0),
        bare,
        software(profile, 1.0, nvl72=False),
        calibration.constants,
    )
    closed, free = step_time(*inputs), step_time(*inputs, _Free())
    same = step_time(*inputs, ClosedForm(chip=bare, constants=calibration.constants))
    np.testing.assert_array_equal(closed.total_s, same.total_s)
    for part in ("tensor_parallel_s", "context_parallel_s", "pipeline_send_s", "data_parallel_s"):
        assert np.all(getattr(free, part) == 0.0), part
        assert np.any(getattr(closed, part) > 0.0), part
    assert np.all(free.total_s < closed.total_s)
