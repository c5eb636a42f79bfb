"""The time of one engine step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.perf.inference.serving_cases import Served, any_served, served

from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.columns import COLUMNS, RANKS, STEP_TERMS
from gpuyard.perf.inference.step import step_terms_s, step_time_s

SEQS = st.integers(1, 512).map(float)
TOKENS = st.integers(1, 16384).map(float)


@settings(max_examples=40, deadline=None)
@given(any_served(), SEQS, TOKENS, TOKENS)
def test_parts_are_never_negative_and_add_up(
    case: Served, seqs: float, prompt: float, context: float
) -> None:
    row = case.row()
    terms = step_terms_s(row, prompt, 0.5 * prompt**2, seqs, seqs * context, seqs + 1.0)
    assert len(terms) == len(STEP_TERMS)
    assert min(terms) >= 0.0
    whole = step_time_s(row, prompt, 0.5 * prompt**2, seqs, seqs * context, seqs + 1.0)
    assert whole == pytest.approx(sum(terms))


@settings(max_examples=40, deadline=None)
@given(any_served(), SEQS, TOKENS)
def test_more_work_is_never_faster(case: Served, seqs: float, context: float) -> None:
    row = case.row()
    least = step_time_s(row, 0.0, 0.0, seqs, seqs * context, seqs)
    assert step_time_s(row, 0.0, 0.0, seqs, seqs * context * 1.5, seqs) >= least
    assert step_time_s(row, 0.0, 0.0, seqs + 1, seqs * context, seqs + 1) >= least
    assert (
        step_time_s(row, 64.0, 2048.0, seqs, seqs * context, seqs + 1) >= least - 1e-6
        or case.engine.pads
    )


@settings(max_examples=30, deadline=None)
@given(any_served(), SEQS, TOKENS)
def test_better_chip_is_never_slower(case: Served, seqs: float, context: float) -> None:
    faster = replace(
        case,
        chip=replace(
            case.chip,
            memory_bytes_per_s=case.chip.memory_bytes_per_s * 1.3,
            bf16_flop_per_s=case.chip.bf16_flop_per_s * 1.3,
            link_bytes_per_s=case.chip.link_bytes_per_s * 1.3,
        ),
    )
    before = step_time_s(case.row(), 512.0, 512.0**2, seqs, seqs * context, seqs)
    assert step_time_s(faster.row(), 512.0, 512.0**2, seqs, seqs * context, seqs) <= before * (
        1 + 1e-12
    )


def test_decode_step_of_one_sequence_reads_every_weight_once() -> None:
    case = served("llama-3.1-70b", "h100-sxm", "bf16", tp=8)
    gemms_s = step_terms_s(case.row(), 0.0, 0.0, 1.0, 1.0, 1.0)[0]
    read_s = case.shape.parameters * 2.0 / 8 / case.chip.memory_bytes_per_s
    assert read_s < gemms_s < 1.6 * read_s


def test_experts_hit_grow_with_tokens_until_all_are_read() -> None:
    case = served("mixtral-8x7b", "h200-sxm", "fp8", tp=2)
    few, many = (step_terms_s(case.row(), 0.0, 0.0, n, n, n)[1] for n in (1.0, 64.0))
    weights_s = case.shape.expert_parameters / 2 / case.chip.memory_bytes_per_s
    assert few == pytest.approx(many / 4, rel=0.35)  # two experts of eight
    assert many > 0.9 * weights_s


def test_latent_attention_caches_less_than_heads_do() -> None:
    latent, heads = (
        served("deepseek-r1", "h200-sxm", "fp8", tp=8),
        served("llama-3.1-405b", "h200-sxm", "fp8", tp=1),
    )
    assert latent.room().token_bytes == 61 * 576 * 2
    assert latent.room().token_bytes < heads.room().token_bytes / 5


def test_windows_bound_what_a_step_reads() -> None:
    row = served("gpt-oss-120b", "h100-sxm", "mxfp4").row()
    near, far = (step_terms_s(row, 0.0, 0.0, 1.0, n, 1.0)[3] for n in (100.0, 100_000.0))
    full = row[COLUMNS.index("kv")]
    assert far == pytest.approx(100_000.0 * full + 128.0 * row[COLUMNS.index("window_kv")])
    assert near == pytest.approx(100.0 * (full + row[COLUMNS.index("window_kv")]))


def test_graphs_of_few_sizes_are_filled_up() -> None:
    case = served("llama-3.1-8b", "h100-sxm", "bf16", "trt-torch-1")
    row = case.row()
    passes = {
        seqs: step_terms_s(row, 0.0, 0.0, seqs, 1.0, 1.0)[4]
        for seqs in (129.0, 256.0, 300.0, 384.0)
    }
    assert passes[300.0] == passes[384.0]
    assert passes[129.0] == passes[256.0]


def test_steps_beyond_largest_graph_are_launched() -> None:
    case = served("llama-3.1-8b", "h100-sxm", "fp8", "trt-torch", tp=8)
    most, listed = (
        replace(case, engine=replace(case.engine, graph_sequences=n)).row() for n in (192, 128)
    )
    filled, as_it_is = (step_terms_s(row, 0.0, 0.0, 150.0, 1.0, 1.0) for row in (most, listed))
    assert filled[4] == pytest.approx(192 / 150 * as_it_is[4], rel=0.02)
    assert sum(as_it_is) > listed[COLUMNS.index("eager")] > sum(filled)
    below = [step_terms_s(row, 0.0, 0.0, 100.0, 1.0, 1.0) for row in (most, listed)]
    assert below[0] == below[1]


def test_head_group_takes_time_of_its_reads() -> None:
    narrow, wide = (
        column(served("llama-3.1-70b", "h200-sxm", "fp8", kv=kv), "kv") for kv in ("fp8", "bf16")
    )
    assert wide == pytest.approx(2.0 * narrow)
    case = served("llama-3.1-70b", "h200-sxm", "fp8")
    more = replace(case, shape=replace(case.shape, heads=2.0 * case.shape.heads))
    assert 1.2 * column(case, "kv") < column(more, "kv") < 2.0 * column(case, "kv")


def test_beams_count_as_sequences_that_share_a_prompt() -> None:
    case = served("llama-3.1-8b", "h100-sxm", engine="trt-mlperf", kv="fp8")
    beams = replace(case, engine=replace(case.engine, beams=4))
    one, four = case.row(), beams.row()
    kv = COLUMNS.index("kv")
    assert four[kv] > one[kv]  # more heads look at each cached token
    four[kv], again = (
        one[kv],
        16.0 * 3.0 * 128.0,
    )  # half a tile of 256 tokens for each of the other beams
    expected = step_time_s(one, 0.0, 0.0, 64.0, 2e4 + again, 64.0)
    assert step_time_s(four, 0.0, 0.0, 16.0, 2e4, 16.0) == pytest.approx(expected)


def test_every_rank_samples_from_full_vocabulary() -> None:
    case = served("llama-3.1-8b", "h100-sxm", "bf16", "trt-bench")
    small = replace(case, shape=replace(case.shape, vocab=case.shape.vocab / 4.0))
    assert column(case, "logits") == pytest.approx(4.0 * column(small, "logits"))
    assert column(
        served("llama-3.1-8b", "h100-sxm", "bf16", "trt-bench", tp=8), "logits"
    ) == column(case, "logits")
    row = case.row()
    few, many = (step_terms_s(row, 0.0, 0.0, 64.0, 1.0, sampled)[4] for sampled in (1.0, 64.0))
    assert many - few == pytest.approx(63.0 * column(case, "logits"))


def test_partly_filled_expert_tiles_are_computed() -> None:
    case = served("mixtral-8x7b", "h200-sxm", "fp8")
    rows = 8 / 2 * read_calibration()["moe.pad_tokens"]  # eight experts, two of them a token's
    assert column(case, "expert_pad") == pytest.approx(rows * column(case, "expert_compute"))


def test_stages_share_the_step() -> None:
    whole, staged = (served("llama-3.1-70b", "h100-sxm", "fp8", pp=pp).row() for pp in (1, 4))
    one, four = (step_terms_s(row, 0.0, 0.0, 256.0, 256_000.0, 256.0) for row in (whole, staged))
    assert four[3] == pytest.approx(one[3] / 4)
    assert four[0] < one[0]


def test_rows_have_a_number_in_every_column() -> None:
    row = served("deepseek-r1", "b200", "nvfp4", ep=8, attention_dp=8).row()
    assert row.shape == (len(COLUMNS),)
    assert np.isfinite(row).all()
    assert row[COLUMNS.index("expert_spread")] == 8.0
    assert row[COLUMNS.index("all_to_all_floor")] > 0.0
    assert row[COLUMNS.index("all_reduce_floor")] == 0.0


def test_norms_over_all_heads_cost_a_small_all_reduce_a_layer_between_ranks() -> None:
    for tp, times in ((1, 0.0), (4, 1.5)):
        case = served("llama-3.1-70b", "h100-sxm", "bf16", tp=tp)
        joint = replace(case, shape=replace(case.shape, joint_norms=True))
        place = COLUMNS.index("all_reduce_floor")
        assert joint.row()[place] == pytest.approx(times * case.row()[place])
        others = np.delete(joint.row(), place)
        assert others == pytest.approx(np.delete(case.row(), place))


def test_norms_of_queries_and_keys_cost_kernels_and_launches() -> None:
    case = served("llama-3.1-70b", "h100-sxm", "bf16", tp=4)
    normed = replace(case, shape=replace(case.shape, head_norms=True))
    changed = {name for name, a, b in zip(COLUMNS, case.row(), normed.row(), strict=True) if a != b}
    assert changed == {"layers", "eager"}
    assert served("qwen3-32b", "h100-sxm", "bf16").shape.head_norms
    assert served("minimax-m2.5", "h100-sxm", "bf16", tp=8).shape.joint_norms


def test_decode_step_without_graph_takes_launch_time() -> None:
    case = served("llama-3.1-8b", "b200", "fp8", engine="vllm-v1")
    plain = replace(case, engine=replace(case.engine, graphs=False))
    launches = case.row()[COLUMNS.index("eager")]
    assert step_time_s(plain.row(), 0.0, 0.0, 1.0, 1.0, 1.0) > launches
    assert step_time_s(case.row(), 0.0, 0.0, 1.0, 1.0, 1.0) < step_time_s(
        plain.row(), 0.0, 0.0, 1.0, 1.0, 1.0
    )
    prompt = (512.0, 512.0**2, 8.0, 4096.0, 9.0)  # is launched by both
    assert step_time_s(plain.row(), *prompt) == step_time_s(case.row(), *prompt)


def test_large_all_reduces_grow_with_the_ranks_that_are_read() -> None:
    place = COLUMNS.index("all_reduce_ramp")
    ramps = [served("llama-3.1-70b", "h100-sxm", "bf16", tp=tp).row()[place] for tp in (2, 4, 8)]
    assert ramps[1] == pytest.approx(3.0 * ramps[0])
    assert ramps[2] == pytest.approx(7.0 * ramps[0])


def test_experts_that_are_expanded_on_the_way_read_less_of_the_bandwidth() -> None:
    place = COLUMNS.index("expert_weights")
    plain, small = (
        served("gpt-oss-120b", "h100-sxm", weights).row()[place]
        for weights in ("bf16", "int4-weights")
    )
    assert 0.516 / 2.0 < small / plain < 1.0


def column(case: Served, name: str) -> float:
    """One coefficient of its row."""
    return float(case.row()[COLUMNS.index(name)])


def test_groups_of_heads_without_code_for_matrix_cores_attend_more_slowly() -> None:
    known, early = (
        served("llama-3.1-70b", "h200-sxm", "fp8", engine, tp=8)
        for engine in ("trt-bench", "trt-stream")
    )
    assert known.shape.heads / known.shape.kv_heads == 8  # code for it came first
    assert column(early, "kv") == column(known, "kv")
    four = [
        served("llama-3.1-8b", "h200-sxm", "fp8", engine, kv)
        for engine in ("trt-bench", "trt-stream")
        for kv in ("bf16", "fp8")
    ]
    wide, narrow, early_wide, early_narrow = (column(case, "kv") for case in four)
    assert narrow < 0.6 * wide  # read in half the time
    assert early_narrow > 2.0 * narrow
    assert early_narrow > 0.7 * early_wide  # arithmetic is the same in either format
    slower_memory = served("llama-3.1-8b", "h100-sxm", "fp8", "trt-stream", "fp8")
    assert column(slower_memory, "kv") == pytest.approx(
        early_narrow, rel=0.02
    )  # and on the same cores


def test_two_ranks_that_read_each_other_over_pcie_wait_for_it() -> None:
    pair, four = (served("llama-3.1-70b", "l40s", "fp8", "trt-bench", tp=tp) for tp in (2, 4))
    others = served("llama-3.1-70b", "l40s", "fp8", "vllm-v1", tp=2)
    assert column(pair, "all_reduce_ramp") > 5.0 * column(four, "all_reduce_ramp")
    assert column(others, "all_reduce_ramp") < column(four, "all_reduce_ramp")
    linked = served("llama-3.1-70b", "h100-sxm", "fp8", "trt-bench", tp=2)
    assert column(linked, "all_reduce_ramp") < 0.1 * column(pair, "all_reduce_ramp")


def test_all_reduces_over_two_sockets_are_slower_than_within_one_in_some_hosts() -> None:
    within, over = (
        column(served("llama-3.1-70b", "a100-pcie", "bf16", tp=tp), "all_reduce_token")
        for tp in (4, 8)
    )
    assert over > 1.1 * within * (7 / 8) / (3 / 4)
    plain = [
        column(served("llama-3.1-70b", "h100-sxm", "fp8", tp=tp), "all_reduce_token")
        for tp in (4, 8)
    ]
    assert plain[1] == pytest.approx(plain[0] * (7 / 8) / (3 / 4))


def test_pcie_hosts_differ_by_chip() -> None:
    old, new = (served("llama-3.1-70b", chip, "bf16", tp=4) for chip in ("a100-pcie", "l40s"))
    assert old.chip.link == new.chip.link
    assert column(new, "all_reduce_floor") < column(old, "all_reduce_floor")
    assert column(new, "all_reduce_token") > column(old, "all_reduce_token")


def test_short_inner_dimensions_pay_for_the_ends_of_tiles() -> None:
    one, eight = (served("llama-3.1-70b", "h100-sxm", "fp8", tp=tp) for tp in (1, 8))
    inner, edge = one.shape.heads * one.shape.head_dim, read_calibration()["tile.low"]
    ratio = column(eight, "out_compute") / column(one, "out_compute")
    assert ratio == pytest.approx((inner / 8 + edge) / (inner + edge))
    assert column(eight, "up_compute") == pytest.approx(
        column(one, "up_compute") / 8
    )  # only the outputs are split
    half = [
        column(served("llama-3.1-70b", "h100-sxm", "bf16", tp=tp), "out_compute") for tp in (1, 8)
    ]
    assert 1 / 8 < half[1] / half[0] < ratio  # in 16 bits a tile ends in the time of fewer elements


def test_narrow_experts_pay_more_for_the_ends_of_tiles_than_wide_ones() -> None:
    wide, narrow = (served("mixtral-8x7b", "h200-sxm", "fp8", tp=tp) for tp in (1, 8))
    hidden, edge = wide.shape.hidden, read_calibration()["tile.low"]
    more = [1 + edge * (2 * width + hidden) / (3 * hidden * width) for width in (14336, 14336 / 8)]
    ratio = column(narrow, "expert_compute") / column(wide, "expert_compute")
    assert ratio == pytest.approx(more[1] / more[0] / 8)


def test_every_chip_of_an_expert_moves_entire_tokens() -> None:
    alone, split = (column(served("mixtral-8x7b", tp=tp), "expert_activations") for tp in (1, 8))
    wide = (
        12.0 * 14336.0 / (8.0 * 4096.0)
    )  # activations between an expert's GEMMs, over its inputs and outputs
    assert split / alone == pytest.approx((1.0 + wide / 8.0) / (1.0 + wide))
    apart = column(
        served("mixtral-8x7b", tp=8, ep=8), "expert_activations"
    )  # an eighth of the tokens each
    assert apart == pytest.approx(alone / 8.0)


def test_slot_cache_is_read_completely() -> None:
    case = served("llama-3.1-8b", "tpu-v5e", "bf16", "jetstream", tp=8)
    slots = replace(case, engine=replace(case.engine, slot_tokens=2048))
    few, many = (
        step_terms_s(slots.row(), 0.0, 0.0, 8.0, tokens, 8.0)[3:5] for tokens in (80.0, 8000.0)
    )
    assert few == many
    whole = step_time_s(case.row(), 0.0, 0.0, 8.0, 8.0 * 2048, 8.0)
    assert step_time_s(slots.row(), 0.0, 0.0, 8.0, 80.0, 8.0) == pytest.approx(whole)


def test_experts_of_an_earlier_period_are_slower() -> None:
    before, after = (
        served("qwen3-235b-a22b", "b200", "nvfp4", name, tp=4)
        for name in ("trt-torch-1", "trt-torch-2")
    )
    assert column(before, "expert_compute") > 1.2 * column(after, "expert_compute")
    assert column(before, "expert_weights") > 1.2 * column(after, "expert_weights")
    assert column(before, "up_compute") == column(after, "up_compute")


def test_ranks_that_step_together_wait_for_the_one_with_a_prompt() -> None:
    row = served("deepseek-r1", "b200", weights="nvfp4", kv="fp8", ep=8, attention_dp=8).row()
    one, together = row, row.copy()
    together[RANKS] = 8.0
    state = (800.0, 320e3, 64.0, 64 * 2600.0, 65.0)
    each = step_time_s(together, *(8.0 * cell for cell in state))  # a prompt on every rank
    alone = step_time_s(together, 800.0, 320e3, 8 * 64.0, 8 * 64 * 2600.0, 8 * 64.0 + 1.0)
    assert each == pytest.approx(step_time_s(one, *state), rel=1e-12)
    assert step_time_s(one, 0.0, 0.0, 64.0, 64 * 2600.0, 64.0) < alone < each
