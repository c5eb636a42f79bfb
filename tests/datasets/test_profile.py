"""Profiles: statistics match other libraries, checks report findings, large tables are sampled."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from gpuyard.datasets.profile import full_scan
from gpuyard.datasets.profile.make import profile
from gpuyard.datasets.profile.measures import QUANTILES, ColumnProfile, DatasetProfile
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError


def table(data: object) -> pl.DataFrame:
    names = list(data.feature_names)  # type: ignore[attr-defined]
    return pl.DataFrame(data.data, schema=names).with_columns(target=data.target)  # type: ignore[attr-defined]


def column(result: DatasetProfile, name: str) -> ColumnProfile:
    return next(one for one in result.columns if one.name == name)


def checks(result: DatasetProfile) -> set[tuple[str, str]]:
    return {(finding.rule, finding.where) for finding in result.findings}


def test_column_statistics_match_numpy_and_scipy() -> None:
    frame = table(load_breast_cancer())
    result = profile("cancer", frame.lazy(), "target")
    assert (result.rows_count, result.sampled_count, result.duplicates_count) == (569, 569, 0)
    for name in frame.columns[:-1]:
        values, one = frame[name].to_numpy(), column(result, name)
        assert one.distinct_count == len(np.unique(values))
        assert one.mean == pytest.approx(values.mean())
        assert one.std == pytest.approx(values.std())
        assert one.skew == pytest.approx(scipy.stats.skew(values))
        np.testing.assert_allclose(one.quantiles, np.quantile(values, QUANTILES))
        assert sum(bar.rows_count for bar in one.histogram) == 569
        low, high = np.quantile(values, (0.25, 0.75))
        outside = (values < low - 1.5 * (high - low)) | (values > high + 1.5 * (high - low))
        assert one.outliers_ratio == pytest.approx(outside.mean())
        assert one.association is not None
        assert one.association.measure == "pearson"
        assert one.association.strength == pytest.approx(
            scipy.stats.pearsonr(values, frame["target"]).statistic
        )
        assert one.association.spearman == pytest.approx(
            scipy.stats.spearmanr(values, frame["target"]).statistic
        )
        assert 0 <= one.association.predictive_power_ratio < 0.98
    assert not {check for check, _ in checks(result)} & {
        "leakage",
        "id",
        "same",
        "constant",
        "imbalance",
    }
    assert result.correlations is not None
    rows = frame.select(result.correlations.names).to_numpy().astype(float)
    np.testing.assert_allclose(
        np.array(result.correlations.rows, dtype=float), np.corrcoef(rows.T), atol=1e-9
    )
    assert result.correlations.names[0] == "target"


def test_association_measure_follows_label_type() -> None:
    diabetes = profile("diabetes", table(load_diabetes()).lazy(), "target")
    assert column(diabetes, "bmi").association.measure == "pearson"  # type: ignore[union-attr]
    iris = profile("iris", table(load_iris()).lazy(), "target")
    association = column(iris, "petal length (cm)").association
    assert association is not None
    assert association.measure == "correlation_ratio"
    assert 0.9 < association.strength < 1
    assert iris.duplicates_count == 1
    assert ("duplicates", "iris") in checks(iris)
    words = table(load_wine()).with_columns(
        pl.col("target").replace_strict({0: "a", 1: "b", 2: "c"}, return_dtype=pl.String)
    )
    named = words.with_columns(
        colour=pl.when(pl.col("color_intensity") > 5).then(pl.lit("deep")).otherwise(pl.lit("pale"))
    )
    wine = profile("wine", named.lazy(), "target")
    association = column(wine, "colour").association
    assert association is not None
    assert association.measure == "cramer_v"
    counts = (
        named.group_by("colour", "target")
        .len()
        .pivot(on="target", index="colour", values="len")
        .fill_null(0)
        .drop("colour")
        .to_numpy()
    )
    plain = scipy.stats.contingency.association(counts, method="cramer")
    assert association.strength == pytest.approx(plain, abs=0.02)  # ours is corrected for its bias
    entropy = scipy.stats.entropy(counts.sum(0))
    information = entropy - sum(
        row.sum() / counts.sum() * scipy.stats.entropy(row) for row in counts
    )
    assert association.information_ratio == pytest.approx(information / entropy)


def test_checks_report_expected_findings() -> None:
    cancer = table(load_breast_cancer())
    rows, draw = len(cancer), np.random.default_rng(0)
    frame = cancer.select("mean area", "target").with_columns(
        patient=pl.Series([f"p{number:04d}" for number in range(rows)]),
        number=pl.Series(np.arange(rows)),
        copy=pl.col("target"),
        benign=pl.col("target") == 1,
        area_again=pl.col("mean area"),
        one=pl.lit(1),
        nearly=pl.Series(np.arange(rows) == 3),
        nothing=pl.lit(None, dtype=pl.Float64),
        half=pl.when(pl.col("mean area") > 500).then(pl.col("mean area")),
        code=pl.Series([str(x) if x > 4 else "n/a" for x in draw.integers(0, 100, rows)]),
        endless=pl.Series(np.where(draw.random(rows) < 0.01, np.inf, draw.normal(size=rows))),
        odd=pl.Series(np.where(draw.random(rows) < 0.01, np.nan, draw.normal(size=rows))),
        tail=pl.Series(draw.lognormal(sigma=2.0, size=rows)),
        when=pl.Series(
            [
                datetime.date(2020, 1, 1) + datetime.timedelta(days=int(x))
                for x in draw.integers(0, 99, rows)
            ]
        ),
    )
    result = checks(profile("made.csv", frame.lazy(), "target"))
    assert result >= {
        ("leakage", "copy"),
        ("leakage", "benign"),
        ("id", "patient"),
        ("id", "number"),
        ("same", "area_again"),
        ("constant", "one"),
        ("constant", "nearly"),
        ("nulls", "nothing"),
        ("mixed", "code"),
        ("infinite", "endless"),
        ("infinite", "odd"),
        ("skew", "tail"),
    }
    quiet = {where for _, where in result}
    assert not quiet & {"mean area", "when", "target"}
    rare = frame.with_columns(target=pl.Series(np.arange(rows) % 100 == 0)).drop("copy", "benign")
    assert ("imbalance", "target") in checks(profile("rare", rare.lazy(), "target"))
    gone = frame.with_columns(target=pl.when(pl.col("number") > 30).then(pl.col("target")))
    assert ("nulls", "target") in checks(profile("gone", gone.lazy(), "target"))
    twice = pl.concat([frame, frame.head(7)])
    assert profile("twice", twice.lazy()).duplicates_count == 7


def test_high_cardinality_category_is_not_leakage() -> None:
    draw = np.random.default_rng(1)
    frame = pl.DataFrame(
        {"who": [f"u{x}" for x in draw.integers(0, 900, 1000)], "y": draw.integers(0, 2, 1000)}
    )
    result = profile("t", frame.lazy(), "y")
    assert column(result, "who").association.predictive_power_ratio < 0.3  # type: ignore[union-attr]  # it only remembers


def test_large_table_is_sampled_and_counted_by_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_scan, "EXACT_ROWS", 10_000)
    monkeypatch.setattr(full_scan, "FEW_DISTINCT", 2_000)
    monkeypatch.setattr(full_scan, "KEPT_DISTINCT", 20_000)
    monkeypatch.setattr(full_scan, "HASHED_ROWS", 50_000)
    draw, rows = np.random.default_rng(0), 200_000
    frame = pl.DataFrame(
        {
            "id": np.arange(rows),
            "x": draw.normal(size=rows),
            "few": draw.integers(0, 50, rows),
            "s": [f"v{v}" for v in draw.integers(0, 1000, rows)],
            "y": draw.integers(0, 2, rows),
        }
    )
    frame = pl.concat([frame, frame.head(4000)])
    for number in range(4):
        frame.slice(number * 51_000, 51_000).write_parquet(tmp_path / f"{number}.parquet")
    seen: list[tuple[int, int, str]] = []
    result = profile(
        "big",
        pl.scan_parquet(tmp_path / "*.parquet"),
        "y",
        sample_rows=30_000,
        on_progress=lambda *now: seen.append(now),
    )
    assert result.rows_count == 204_000
    assert 25_000 < result.sampled_count < 35_000
    assert column(result, "few").distinct_count == 50
    assert column(result, "s").distinct_count == 1000
    assert column(result, "few").distinct_exact
    assert not column(result, "id").distinct_exact
    assert column(result, "id").distinct_count == pytest.approx(rows, rel=0.03)
    assert result.duplicates_count == pytest.approx(4000, rel=0.15)
    assert not result.duplicates_exact
    assert column(result, "x").mean == pytest.approx(frame["x"].mean())
    assert column(result, "x").quantiles[3] == pytest.approx(0.0, abs=0.03)
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][0] == seen[-1][1]
    assert (
        profile("big", pl.scan_parquet(tmp_path / "*.parquet"), "y", sample_rows=30_000) == result
    )  # the same every time


def test_large_texts_reduce_sample_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_scan, "SAMPLE_BYTES", 2e6)
    frame = pl.DataFrame(
        {"text": [f"{number} " * 200 for number in range(9000)], "y": [0, 1] * 4500}
    )
    result = profile("long", frame.lazy(), "y")
    assert 1000 < result.sampled_count < 3500
    assert column(result, "text").mean_bytes == pytest.approx(frame["text"].str.len_bytes().mean())


CELLS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@given(
    st.lists(
        st.tuples(
            CELLS,
            FLOATS,
            st.one_of(st.none(), st.text(max_size=8)),
            st.one_of(st.none(), st.booleans()),
        ),
        max_size=40,
    ),
    st.sampled_from(["i", "f", "s", "b", None]),
)
@hypothesis_settings(max_examples=80)
def test_profile_of_any_table_round_trips_as_json(
    rows: list[tuple[object, ...]], label: str | None
) -> None:
    frame = pl.DataFrame(
        rows, schema={"i": pl.Int64, "f": pl.Float64, "s": pl.String, "b": pl.Boolean}, orient="row"
    )
    result = profile("any", frame.lazy(), label)
    assert load_json(dump_json(result), DatasetProfile) == result
    assert result.rows_count == len(rows)
    for one in result.columns:
        assert one.nulls_count == frame[one.name].null_count()
        assert one.distinct_count == frame[one.name].drop_nulls().n_unique()


def test_profile_supports_nested_and_binary_types() -> None:
    frame = pl.DataFrame(
        {
            "list": [[1, 2], None, [3]],
            "struct": [{"a": 1}, {"a": 2}, None],
            "bytes": [b"a", b"", None],
            "when": [datetime.datetime(1900, 1, 1), None, datetime.datetime(2262, 1, 1)],
            "time": [datetime.time(1), None, None],
            "length": [datetime.timedelta(1), None, datetime.timedelta(2)],
        }
    ).with_columns(
        money=pl.Series(["1.50", "2.25", None]).cast(pl.Decimal(10, 2)),
        kind=pl.Series(["a", "b", None]).cast(pl.Categorical),
        null=pl.Series([None] * 3, dtype=pl.Null),
        small=pl.Series([1, 2, None], dtype=pl.Float32),
    )
    result = profile("odd", frame.lazy(), "kind")
    assert column(result, "money").mean == pytest.approx(1.875)
    assert column(result, "list").distinct_count == 2
    assert column(result, "when").min == "1900-01-01 00:00:00"
    assert load_json(dump_json(result), DatasetProfile) == result


def test_unknown_label_raises_input_error() -> None:
    with pytest.raises(InputError, match='did you mean "target"'):
        profile("iris", table(load_iris()).lazy(), "targt")
