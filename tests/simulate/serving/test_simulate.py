"""The serving engine: against a plain simulation, and in what always holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.simulate.serving.pools import DECODE_S, KV_S, PREFILL_S, plain, pool, requests, run

from gpuyard.errors import Infeasible
from gpuyard.simulate.serving.load import at_rate, fixed, lognormal, uniform
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import Transfer, simulate

LENGTHS = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 60)), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 12), st.sampled_from((32, 100, 1000)))
def test_jumps_give_what_single_steps_give(
    lengths: list[tuple[int, int]], sequences: int, budget: int
) -> None:
    load = requests([p for p, _ in lengths], [o for _, o in lengths])
    own = pool(sequences=sequences, budget=max(budget, sequences + 1), reserves=True)
    found = run(load, own)
    first, finish = plain(load, own)
    assert found.first_token_s == pytest.approx(first)
    assert found.finished_s == pytest.approx(finish)


@settings(max_examples=60, deadline=None)
@given(
    LENGTHS,
    st.integers(1, 8),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(35, 90),
    st.integers(0, 9),
)
@example(
    [(399, 4), (385, 1)], 2, True, True, False, 50, 0
)  # a prompt in progress has the block that a decode needs
def test_every_request_is_served_in_order_and_within_memory(
    lengths: list[tuple[int, int]],
    users: int,
    mixes: bool,
    chunks: bool,
    reserves: bool,
    blocks: int,
    seed: int,
) -> None:
    load = requests([p for p, _ in lengths], [o for _, o in lengths])
    own = pool(
        blocks=blocks, sequences=6, budget=128, mixes=mixes, chunks=chunks, reserves=reserves
    )
    spread = at_rate(load, 2.0, np.random.default_rng(seed))
    for found in (run(load, own, users=users), run(spread, own)):
        assert (found.arrived_s <= found.admitted_s).all()
        assert (found.admitted_s < found.first_token_s).all()
        assert (found.first_token_s <= found.finished_s).all()
        one = found.output_tokens == 1
        assert (found.first_token_s[one] == found.finished_s[one]).all()
        line = found.timeline
        assert line.used_blocks.max() <= blocks
        assert line.used_blocks.min() >= 0
        assert line.running.max() <= 6
        made = (line.steps * line.decode_seqs).sum() + load.count
        assert made == pytest.approx(load.output_tokens.sum() - found.preemptions.sum())
        assert not reserves or found.preemptions.sum() == 0
        ends = line.at_s + line.steps * line.step_s
        assert (line.at_s[1:] >= ends[:-1] - 1e-9).all()


def test_times_of_one_request_add_up() -> None:
    found = run(requests([100], [11]), pool())
    assert found.ttft_s[0] == pytest.approx(DECODE_S + 100 * PREFILL_S)
    cached = sum(100 + k for k in range(1, 11))
    assert found.finished_s[0] - found.first_token_s[0] == pytest.approx(
        10 * DECODE_S + cached * KV_S
    )


def test_beams_of_a_search_share_the_prompt_and_cache_a_token_each() -> None:
    found = run(requests([100], [11]), pool(beams=4))
    cached = sum(100 + 4 * k for k in range(1, 11))
    assert found.finished_s[0] - found.first_token_s[0] == pytest.approx(
        10 * DECODE_S + cached * KV_S
    )
    reserved = run(requests([64] * 4, [200] * 4), pool(blocks=120, reserves=True, beams=4))
    assert reserved.timeline.running.max() == 2  # 54 blocks of 16 each: 64 + 4 x 200 tokens


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.sampled_from((1, 2, 4, 8)), st.booleans())
def test_all_blocks_are_given_back(lengths: list[tuple[int, int]], beams: int, tight: bool) -> None:
    prompts, outputs = [p for p, _ in lengths], [o for _, o in lengths]
    most = max(p + beams * o for p, o in lengths) // 16 + 2  # of one request
    own = pool(sequences=6, budget=128, beams=beams, blocks=most if tight else 10_000)
    found = run(requests([*prompts, 1], [*outputs, 2], [0.0] * len(lengths) + [1e6]), own)
    alone = run(requests([1], [2]), own)
    assert found.timeline.used_blocks.min() > 0
    assert found.timeline.used_blocks[-1] == alone.timeline.used_blocks[-1]  # long after all others


def test_too_little_memory_preempts_and_everything_is_computed_again() -> None:
    load = requests([64] * 4, [200] * 4)
    ample, tight = run(load, pool(blocks=1000)), run(load, pool(blocks=40))
    assert ample.preemptions.sum() == 0
    assert tight.preemptions.sum() > 0
    assert tight.finished_s.max() > ample.finished_s.max()
    assert tight.timeline.prefill_tokens.sum() > ample.timeline.prefill_tokens.sum()


def test_engine_that_reserves_blocks_waits_instead() -> None:
    found = run(requests([64] * 4, [200] * 4), pool(blocks=40, reserves=True))
    assert found.preemptions.sum() == 0
    assert found.timeline.running.max() == 2


def test_request_that_never_fits_is_infeasible() -> None:
    found = simulate(requests([10_000], [10]), pool(blocks=10))
    assert isinstance(found, Infeasible)
    assert found.binding == "memory"


def test_prompts_that_run_alone_hold_up_decoding() -> None:
    load = requests([100, 1500], [50, 50], [0.0, 0.1])
    mixed, alone = run(load, pool()), run(load, pool(mixes=False))
    assert mixed.timeline.decode_seqs[mixed.timeline.prefill_tokens > 0].max() == 1
    assert alone.timeline.decode_seqs[alone.timeline.prefill_tokens > 0].max() == 0


def test_prompt_is_chunked_by_token_budget_or_waits_for_its_own_step() -> None:
    load = requests([5000], [2])
    assert (run(load, pool(budget=512)).timeline.prefill_tokens > 0).sum() == 10
    assert (run(load, pool(budget=512, chunks=False)).timeline.prefill_tokens > 0).sum() == 1


def test_prefixes_in_the_cache_are_not_computed() -> None:
    load = fixed(10, 1000, 5, hit_ratio=0.9)
    assert run(load, pool()).timeline.prefill_tokens.sum() == 10 * 100


def test_users_wait_for_their_answer_before_they_ask_again() -> None:
    found = run(uniform(200, 100, 50, 0.5, np.random.default_rng(1)), pool(), users=8)
    line = found.timeline
    assert (line.running + line.queue).max() == 8
    assert (found.arrived_s[8:] > 0).all()
    assert set(found.arrived_s[8:]) <= set(found.finished_s)


@pytest.mark.parametrize("overlaps", [False, True])
def test_next_request_of_a_user_misses_steps_in_progress(overlaps: bool) -> None:
    found = run(requests([100, 100, 100], [5, 20, 5]), pool(overlaps=overlaps), users=2)
    line, begun = found.timeline, found.arrived_s[2]
    missed = line.steps[
        (line.at_s >= begun - 1e-9) & (line.at_s < found.admitted_s[2] - 1e-9)
    ].sum()
    assert missed == (2 if overlaps else 1)
    assert found.admitted_s[2] == pytest.approx(begun + missed * DECODE_S, rel=1e-2)


def test_single_user_does_not_wait() -> None:
    found = run(requests([100, 100], [5, 5]), pool(overlaps=True), users=1)
    assert found.admitted_s[1] == found.arrived_s[1] == found.finished_s[0]


def test_same_input_gives_same_times() -> None:
    load = at_rate(
        lognormal(300, 200, 60, (1.0, 1.0), np.random.default_rng(3)),
        20.0,
        np.random.default_rng(4),
    )
    once, again = run(load, pool(replicas=3)), run(load, pool(replicas=3))
    assert (once.finished_s == again.finished_s).all()


def test_replicas_share_the_load_and_routers_balance_it() -> None:
    rng = np.random.default_rng(5)
    load = at_rate(lognormal(600, 200, 60, (1.5, 1.5), rng), 60.0, rng)
    one = simulate(load, pool(sequences=8))
    found = {
        router: simulate(load, pool(sequences=8, replicas=3), router=router)  # type: ignore[arg-type]
        for router in ("round-robin", "least-outstanding", "shortest-queue")
    }
    assert isinstance(one, ServingOutcome)
    for outcome in found.values():
        assert isinstance(outcome, ServingOutcome)
        assert set(outcome.replica) == {0, 1, 2}
        assert outcome.ttft_s.mean() < one.ttft_s.mean()
    in_turn, balanced = found["round-robin"], found["least-outstanding"]
    assert isinstance(in_turn, ServingOutcome)
    assert isinstance(balanced, ServingOutcome)
    assert (np.bincount(in_turn.replica) == 200).all()
    assert balanced.ttft_s.mean() <= in_turn.ttft_s.mean()


def test_pools_for_prefill_and_decode_pay_for_the_transfer_between_them() -> None:
    load = fixed(40, 500, 20)
    near, far = (
        simulate(load, pool(replicas=2), prefill=pool(), transfer=Transfer(latency_s=wait), users=4)
        for wait in (0.0, 1.0)
    )
    assert isinstance(near, ServingOutcome)
    assert isinstance(far, ServingOutcome)
    assert far.ttft_s.min() > 1.0  # the decode pool sends the first token
    assert far.ttft_s.mean() == pytest.approx(near.ttft_s.mean() + 1.0, rel=0.1)
    assert far.tpot_s.mean() == pytest.approx(near.tpot_s.mean(), rel=0.2)
    both = near.timeline.prefill_tokens * near.timeline.decode_seqs
    assert both.sum() == 0
    assert set(near.timeline.replica) == {0, 1, 2}


def test_both_pools_are_used_evenly() -> None:
    found = simulate(fixed(300, 300, 20), pool(replicas=3), prefill=pool(replicas=2), users=30)
    assert isinstance(found, ServingOutcome)
    line = found.timeline
    prompts = [line.prefill_tokens[line.replica == r].sum() for r in range(2)]
    assert prompts[0] == pytest.approx(prompts[1], rel=0.1)
    assert np.bincount(found.replica, minlength=5)[2:].min() >= 90


def test_summary_matches_request_times() -> None:
    found = run(fixed(50, 100, 20), pool(sequences=10))
    summary = found.summary()
    assert summary.requests == 50
    assert summary.output_tokens_per_s == pytest.approx(1000 / found.finished_s.max())
    assert summary.ttft.mean_s == pytest.approx(found.ttft_s.mean())
    assert summary.itl.mean_s == pytest.approx(summary.tpot.mean_s, rel=0.05)
    assert summary.ttft.p50_s <= summary.ttft.p90_s <= summary.ttft.p99_s
    assert len(found.timeline.thinned(7).at_s) == 7


def test_without_a_timeline_the_times_are_the_same() -> None:
    load = fixed(30, 100, 20)
    bare = simulate(load, pool(), timeline=False)
    assert isinstance(bare, ServingOutcome)
    assert (bare.finished_s == run(load, pool()).finished_s).all()
    assert replace(bare).timeline.at_s.size == 0


@pytest.mark.parametrize("overlaps", [False, True])
def test_an_arrival_misses_the_step_that_an_overlapping_engine_has_composed(overlaps: bool) -> None:
    lone = run(requests([100], [50]), pool(overlaps=overlaps))
    first_s = float(lone.first_token_s[0])
    load = replace(
        requests([100, 100], [50, 5]), arrived_s=np.array([0.0, first_s + 5.5 * DECODE_S])
    )
    late = run(load, pool(overlaps=overlaps))
    steps = (late.admitted_s[1] - late.arrived_s[1]) / DECODE_S
    assert (1.0 if overlaps else 0.0) < steps < (2.0 if overlaps else 1.0)
