"""Checkpoints, interruptions and restarts: the algebra, and the records that were published."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.goodput import (
    Goodput,
    best_interval_s,
    daly_interval_s,
    goodput,
    young_interval_s,
)

RECORDS = {record.name: record for record in load_catalog().interruptions}
LLAMA = RECORDS["llama-3"]
DAY_S = 86400.0

seconds = st.floats(1e-3, 1e9)
useful = st.floats(1.0, 1e8)
between = st.floats(10.0, 1e9)
write = st.floats(0.0, 1e4)
restart = st.floats(0.0, 1e5)


def parts(found: Goodput) -> float:
    return float(found.useful_s + found.checkpoint_s + found.lost_s + found.restart_s)


@given(useful, between, write, restart)
def test_parts_add_up(useful_s: float, between_s: float, write_s: float, restart_s: float) -> None:
    found = goodput(useful_s, between_s, write_s, restart_s)
    assert found.expected_s == pytest.approx(parts(found), rel=1e-12)
    assert min(found.checkpoint_s, found.lost_s, found.restart_s) >= 0.0
    assert found.goodput_ratio == pytest.approx(useful_s / found.expected_s)
    assert 0.0 < found.goodput_ratio <= 1.0


@given(useful, between, st.floats(0.1, 1e4), st.floats(0.0, 1e4), st.floats(1.0, 1e5))
def test_expected_time_matches_dalys_complete_model(
    useful_s: float, between_s: float, write_s: float, restart_s: float, interval_s: float
) -> None:
    found = goodput(useful_s, between_s, write_s, restart_s, interval_s)
    gap = min(interval_s, useful_s)
    exponent = (gap + write_s) / between_s
    assume(max(exponent, restart_s / between_s) < 100.0)  # beyond that the work never ends
    daly = between_s * math.exp(restart_s / between_s) * math.expm1(exponent) * useful_s / gap
    assert found.expected_s == pytest.approx(daly, rel=1e-9)


@given(useful, between, st.floats(1.01, 100.0), write, restart)
def test_more_failures_are_never_faster(
    useful_s: float, between_s: float, more: float, write_s: float, restart_s: float
) -> None:
    often = goodput(useful_s, between_s / more, write_s, restart_s)
    seldom = goodput(useful_s, between_s, write_s, restart_s)
    assert often.expected_s >= seldom.expected_s * (1.0 - 1e-9)


@given(useful, between, write, st.floats(0.0, 1e4), restart, st.floats(0.0, 1e4))
def test_slower_writes_and_restarts_are_never_faster(
    useful_s: float,
    between_s: float,
    write_s: float,
    more_write_s: float,
    restart_s: float,
    more_restart_s: float,
) -> None:
    quick = goodput(useful_s, between_s, write_s, restart_s)
    slow = goodput(useful_s, between_s, write_s + more_write_s, restart_s + more_restart_s)
    assert slow.expected_s >= quick.expected_s * (1.0 - 1e-9)


@given(between, st.floats(0.01, 1e5), st.floats(0.1, 10.0))
def test_no_interval_beats_the_best_one(between_s: float, write_s: float, times: float) -> None:
    assume(write_s < 50.0 * between_s)
    best = float(best_interval_s(between_s, write_s))
    long_s = 1e3 * max(best, 1.0)
    chosen = goodput(long_s, between_s, write_s, 0.0, best)
    other = goodput(long_s, between_s, write_s, 0.0, best * times)
    assert chosen.expected_s <= other.expected_s * (1.0 + 1e-9)


@given(st.floats(1e3, 1e9), st.floats(1e-3, 1.0))
def test_young_daly_and_the_best_agree_where_writes_are_quick(
    between_s: float, write_s: float
) -> None:
    best = best_interval_s(between_s, write_s)
    assert daly_interval_s(between_s, write_s) == pytest.approx(best, rel=0.01)
    assert young_interval_s(between_s, write_s) == pytest.approx(best, rel=0.05)


def test_daly_where_a_write_takes_longer_than_the_gaps() -> None:
    assert daly_interval_s(100.0, 250.0) == 100.0
    assert daly_interval_s(100.0, 199.0) == pytest.approx(
        math.sqrt(2 * 199 * 100) * (1 + math.sqrt(0.995) / 3 + 0.995 / 9) - 199
    )


def test_nothing_happens_where_nothing_fails() -> None:
    found = goodput(1000.0, math.inf, 10.0, 100.0)
    assert found.expected_s == pytest.approx(1010.0)  # one piece, written once
    assert found.interruptions_count == pytest.approx(0.0, abs=1e-9)
    assert goodput(0.0, 100.0, 10.0, 10.0).expected_s == 0.0


def test_work_that_never_ends_is_a_number_all_the_same() -> None:
    found = goodput(1e6, 1.0, 10.0, 1e5)
    assert np.isfinite(found.expected_s)
    assert found.goodput_ratio < 1e-40


@given(st.lists(st.tuples(useful, between, write, restart), min_size=1, max_size=20))
def test_arrays_give_what_numbers_give(rows: list[tuple[float, float, float, float]]) -> None:
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    together = goodput(*columns)
    for index, row in enumerate(rows):
        alone = goodput(*row)
        assert np.asarray(together.expected_s)[index] == pytest.approx(alone.expected_s, rel=1e-12)
        assert isinstance(alone.expected_s, float)


def test_simulated_run_takes_expected_time() -> None:
    rng = random.Random(7)
    between_s, write_s, restart_s, gap_s, pieces = 900.0, 30.0, 120.0, 250.0, 20_000
    clock_s, next_s, interruptions = 0.0, rng.expovariate(1 / between_s), 0
    for _ in range(pieces):
        left_s = gap_s + write_s
        while clock_s + left_s > next_s:
            clock_s, next_s, interruptions = (
                next_s,
                next_s + rng.expovariate(1 / between_s),
                interruptions + 1,
            )
            left_s = restart_s + gap_s + write_s
        clock_s += left_s
    found = goodput(pieces * gap_s, between_s, write_s, restart_s, gap_s)
    assert clock_s == pytest.approx(found.expected_s, rel=0.02)
    assert interruptions == pytest.approx(found.interruptions_count, rel=0.03)


def test_llama_3_interruption_record() -> None:
    """arXiv 2407.21783: 419 unexpected interruptions in 54 days on 16,384 H100, more than 90 % effective time.

    Assumed: a checkpoint of 14 bytes a parameter (405e9) over storage that sustains 2 TB/s (both from the paper's
    model and section 3.3.1), and the restart of the catalog's row.
    """
    cluster_s = LLAMA.mean_time_between_s / 16384
    assert cluster_s / 3600 == pytest.approx(3.09, abs=0.01)
    assert LLAMA.restart_s is not None
    write_s = 405e9 * 14 / 2e12
    ratio = float(goodput(54 * DAY_S, cluster_s, write_s, LLAMA.restart_s).goodput_ratio)
    run = goodput(54 * DAY_S * ratio, cluster_s, write_s, LLAMA.restart_s)
    assert run.goodput_ratio > 0.90
    assert run.expected_s == pytest.approx(54 * DAY_S, rel=1e-6)
    assert abs(run.interruptions_count - 419) < math.sqrt(419)


def test_research_cluster_projections() -> None:
    """arXiv 2410.21680: 6.50 failures in a thousand node-days give 1.8 h at 16,384 GPUs and 0.23 h at 131,072."""
    node_s = RECORDS["rsc-1"].mean_time_between_s
    assert node_s / (16384 / 8) / 3600 == pytest.approx(1.8, rel=0.02)
    assert node_s / (131072 / 8) / 3600 == pytest.approx(0.23, rel=0.03)


def test_research_cluster_estimate() -> None:
    """Their first-order ratio (1 − N·r·(u + Δt/2)) / (1 + w/Δt) agrees where losses are small."""
    node_s, nodes, restart_s, gap_s, write_s = (
        RECORDS["rsc-1"].mean_time_between_s,
        256,
        300.0,
        1800.0,
        30.0,
    )
    published = (1 - nodes / node_s * (restart_s + gap_s / 2)) / (1 + write_s / gap_s)
    found = goodput(30 * DAY_S, node_s / nodes, write_s, restart_s, gap_s)
    assert found.goodput_ratio == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(("restart_s", "published"), [(600.0, 0.44), (180.0, 0.80)])
def test_goodput_of_hundred_thousand_gpus(restart_s: float, published: float) -> None:
    """arXiv 2602.00277: stalls of 10 and 3 minutes leave 44 % and 80 % at about 100,000 GPUs; scale and rate are rough."""
    cluster_s = RECORDS["rsc-1"].mean_time_between_s * 8 / 100_000
    found = goodput(30 * DAY_S, cluster_s, 10.0, restart_s)
    assert found.goodput_ratio == pytest.approx(published, abs=0.08)
