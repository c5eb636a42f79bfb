"""PSI and KS of served features against their training profile."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gpuyard.document.encode import dump_json, load_json
from gpuyard.registry.feature_profile import (
    MAX_FEATURES,
    MIN_ROWS,
    BinCounter,
    FeatureProfile,
    feature_drift,
    profile_of,
)

RNG = np.random.default_rng(5)


def drift(train: np.ndarray, served: np.ndarray) -> object:
    profile = profile_of(("f",), train[:, None].astype(np.float32))
    assert profile is not None
    (bins,) = profile.features
    counts = BinCounter([bins.edges]).count(served[:, None].astype(np.float32))
    return feature_drift(bins, counts[0])


def test_same_distribution_is_stable() -> None:
    row = drift(RNG.normal(size=8000), RNG.normal(size=8000))
    assert row.psi < 0.01
    assert row.ks < 0.03
    assert row.verdict == "stable"


@pytest.mark.parametrize(("shift", "verdict"), [(0.4, "watch"), (1.5, "moved")])
def test_shifted_distribution_moves(shift: float, verdict: str) -> None:
    train, served = RNG.normal(size=20_000), RNG.normal(shift, 1, size=20_000)
    row = drift(train, served)
    assert row.verdict == verdict
    exact = stats.ks_2samp(train, served).statistic
    assert row.ks <= exact + 1e-9
    assert row.ks == pytest.approx(exact, abs=0.06)
    # Between two normal distributions of unit variance PSI is the square of the shift.
    assert row.psi == pytest.approx(shift**2, rel=0.25)


def test_psi_is_that_of_the_formula() -> None:
    train = np.repeat([0.0, 1.0, 2.0], [500, 300, 200])
    served = np.repeat([0.0, 1.0, 2.0], [200, 300, 500])
    row = drift(train, served)
    by_hand = 2 * (0.5 - 0.2) * np.log(0.5 / 0.2)
    assert row.psi == pytest.approx(by_hand, rel=0.01)
    assert row.ks == pytest.approx(0.3)


def test_missing_values_are_a_bin() -> None:
    train, served = RNG.normal(size=5000), RNG.normal(size=5000)
    served[::2] = np.nan
    row = drift(train, served)
    assert row.verdict == "moved"
    assert row.missing_served_ratio == 0.5
    assert row.missing_training_ratio == 0.0


def test_few_rows_have_no_verdict() -> None:
    row = drift(RNG.normal(size=5000), RNG.normal(3, 1, size=MIN_ROWS - 1))
    assert row.verdict == "too few rows"


def test_profile_survives_saving_and_counts_every_row() -> None:
    x = RNG.normal(size=(700, 3)).astype(np.float32)
    x[:, 1] = x[:, 1] > 1.2  # a column of 0 and 1
    x[:, 2] = 7.0
    profile = profile_of(("a", "b", "c"), x)
    assert profile is not None
    assert load_json(dump_json(profile), FeatureProfile) == profile
    assert [sum(feature.counts) for feature in profile.features] == [700] * 3
    assert len(profile.features[1].counts) == 3  # 0, 1, missing
    assert profile_of((), np.zeros((5, MAX_FEATURES + 1))) is None
