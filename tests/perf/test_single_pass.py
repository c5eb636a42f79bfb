"""Models of one pass: published rates come back, more work is never faster, and guesses are told from measurements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.single_pass import (
    SinglePassRate,
    family_of,
    peak_flop_per_s,
    single_pass_rate,
    tree_cost,
    work_of,
)

CATALOG = load_catalog()
# MLPerf Inference, closed division, Offline, a chip (see perf/data/single_pass.toml).
PUBLISHED = [
    ("resnet-50", "h200-sxm", 756960 / 8),
    ("resnet-50", "l4", 25600 / 2),
    ("resnet-50", "t4", 23302.2 / 4),
    ("bert-large", "h100-sxm", 70594 / 8),
    ("bert-large", "a100-80gb", 28347.4 / 8),
    ("dlrm-v2", "h200-sxm", 637342 / 8),
]


@pytest.mark.parametrize(("name", "chip", "rate"), PUBLISHED)
def test_published_rates_come_back(name: str, chip: str, rate: float) -> None:
    work = work_of(CATALOG.model(name))
    assert work is not None
    found = single_pass_rate(work.family, CATALOG.chip(chip), CATALOG)
    assert found is not None
    assert found.runs > 0
    assert found.flop_per_s / work.flop == pytest.approx(rate, rel=found.error_ratio)


@pytest.mark.parametrize(("name", "chip", "rate"), PUBLISHED[:3])
def test_held_out_chip_is_predicted_within_its_interval(name: str, chip: str, rate: float) -> None:
    work = work_of(CATALOG.model(name))
    assert work is not None
    guessed = single_pass_rate(work.family, CATALOG.chip("b200"), CATALOG)
    assert guessed is not None
    assert guessed.runs == 0
    share = guessed.flop_per_s / (peak_flop_per_s(CATALOG.chip("b200")) or 1.0)
    predicted = share * (peak_flop_per_s(CATALOG.chip(chip)) or 1.0) / work.flop
    assert max(predicted / rate, rate / predicted) - 1.0 <= guessed.error_ratio


def test_single_samples_are_near_the_published_latency() -> None:
    work = work_of(CATALOG.model("resnet-50"))
    assert work is not None
    for chip, latency_s in (("l4", 374.9e-6), ("l40s", 317.6e-6), ("a100-80gb", 492.6e-6)):
        found = single_pass_rate("convolution", CATALOG.chip(chip), CATALOG)
        assert found is not None
        assert found.batch_s(work.flop, work.parameters, 1.0) == pytest.approx(latency_s, rel=0.1)


def test_processors_with_and_without_matrix_units_differ() -> None:
    with_amx = single_pass_rate("convolution", CATALOG.chip("xeon-sapphire-rapids"), CATALOG)
    without = single_pass_rate("convolution", CATALOG.chip("xeon-ice-lake"), CATALOG)
    assert with_amx is not None
    assert without is not None
    assert with_amx.flop_per_s > 4 * without.flop_per_s
    assert with_amx.error_ratio == 1.0  # one processor alone was measured: a factor of two
    assert single_pass_rate("convolution", CATALOG.chip("tpu-v5e"), CATALOG) is None
    assert single_pass_rate("convolution", CATALOG.chip("epyc-turin"), CATALOG) is None


@given(st.integers(1, 512), st.integers(1, 512), st.floats(1e8, 1e12), st.floats(0.0, 1e10))
def test_more_work_is_never_faster(few: int, more: int, flop: float, weight_bytes: float) -> None:
    found = SinglePassRate(
        flop_per_s=1e14,
        memory_bytes_per_s=1e12,
        call_s=1e-4,
        server_ratio=0.8,
        error_ratio=0.1,
        runs=1,
    )
    low, high = sorted((few, more))
    assert found.batch_s(flop, weight_bytes, low) <= found.batch_s(flop, weight_bytes, high)
    assert (
        found.batch_s(flop, weight_bytes, low) / low
        >= found.batch_s(flop, weight_bytes, high) / high
    )
    assert found.scaled(2.0).batch_s(flop, weight_bytes, low) <= found.batch_s(
        flop, weight_bytes, low
    )


def test_families() -> None:
    assert family_of(CATALOG.model("vit-l-16")) == "encoder"
    assert family_of(CATALOG.model("bert-base")) == "encoder"
    assert family_of(CATALOG.model("llama-3-8b")) is None
    longer, shorter = (work_of(CATALOG.model("bert-large"), tokens) for tokens in (384.0, 128.0))
    assert longer is not None
    assert shorter is not None
    assert longer.flop > 3 * shorter.flop


def test_trees_by_visits() -> None:
    row_s, trees = tree_cost(CATALOG.model("xgboost-500x8"))
    assert row_s == pytest.approx(500 * 8 * trees.visit_s)
    assert 1024 * row_s == pytest.approx(
        8.187e-3, rel=0.05
    )  # measured: see perf/data/single_pass.toml
