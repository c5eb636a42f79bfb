"""Steps: Polars and NumPy agree, scikit-learn agrees, wrong settings raise errors."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import preprocessing

from gpuyard.datasets.group_aggregates import GroupCountsRequest, GroupQuantilesRequest
from gpuyard.datasets.steps.dates import DateParts
from gpuyard.datasets.steps.strings import Strings
from gpuyard.datasets.transform import load_transform
from gpuyard.errors import InputError

from .tables import mixed_table, prepare_yaml

HEAD = "source: table.parquet\nlabel: label\nid: id\noutput: {precision: float64}\nsteps:\n"
PIPELINES = {
    "zscore": "- zscore: {columns: [a, b, n]}",
    "impute mean, clip, zscore": "- impute: {columns: [a, b], value: mean}\n- clip: {columns: [a, b], lower: 0, upper: 6}\n- zscore: {columns: [a, b]}",
    "impute median, robust": "- impute: {columns: [a, b], value: median}\n- robust: {columns: [a, b, n]}",
    "impute mode": "- impute: {columns: [n, city], value: mode}\n- onehot: {columns: [city]}",
    "impute constant": '- impute: {columns: [city], value: none}\n- impute: {columns: [a], value: "7.5"}\n- ordinal: {columns: [city]}',
    "impute by group": "- impute: {columns: [a, b], value: mean, by: city}",
    "impute by number": "- impute: {columns: [a], value: mean, by: code}",
    "impute median by group": "- impute: {columns: [a, b], value: median, by: city}",
    "impute mode by group": "- impute: {columns: [n, a], value: mode, by: city}",
    "impute texts by number": "- impute: {columns: [city], value: mode, by: code}\n- onehot: {columns: [city]}",
    "minmax": "- minmax: {columns: [a, b], low: -1, high: 1}",
    "clip quantile": "- clip: {columns: [a, b], quantile: 0.05}\n- zscore: {columns: [a, b]}",
    "clip iqr": "- clip: {columns: [a, b], iqr: 1.5}",
    "log": "- power: {columns: [b], method: log}",
    "box-cox": "- power: {columns: [b], method: box_cox}",
    "yeo-johnson": "- power: {columns: [a, b, n], method: yeo_johnson}\n- zscore: {columns: [a, b, n]}",
    "quantile": "- quantile: {columns: [a, b], points: 50}",
    "quantile bell": "- quantile: {columns: [a], shape: bell}",
    "unit length": "- unit_length: {columns: [a, b, n]}",
    "unit l1": "- unit_length: {columns: [a, b], norm: l1}",
    "unit max": "- unit_length: {columns: [a, b], norm: max}",
    "onehot": "- onehot: {columns: [city, code], most: 3}",
    "ordinal": "- ordinal: {columns: [city, code]}",
    "ordinal given": "- ordinal: {columns: [city], order: [Rome, Oslo]}",
    "hash": "- hash: {columns: [city, code], buckets: 17}",
    "bucketise edges": "- bucketise: {columns: [a], edges: [0, 1, 2.5]}",
    "bucketise rows": "- bucketise: {columns: [a, b], buckets: 20}",
    "bucketise width": "- bucketise: {columns: [a], buckets: 4, by: width}",
    "polynomial": "- polynomial: {columns: [a, b, n], degree: 3}",
    "interactions": "- polynomial: {columns: [a, b, n], interactions: true}",
    "date parts": "- date_parts: {columns: [when], parts: [year, month, day, weekday, hour, minute, second, day_of_year, epoch]}",
    "calendar": "- date_parts: {columns: [when], parts: [quarter, week, weekend, days_in_month, month_start, month_end]}",
    "cyclic date parts": "- date_parts: {columns: [when], parts: [month, weekday, hour, year, week], cyclic: true}",
    "strings": "- strings: {columns: [city], case: lower}\n- onehot: {columns: [city]}",
    "cast": "- cast: {columns: [n], to: text}\n- cast: {columns: [n], to: float}\n- cast: {columns: [flag], to: int}\n- cast: {columns: [code], to: bool}",
    "all": "- impute: {value: mean}\n- zscore: {}\n- impute: {columns: [city], value: mode}\n- onehot: {columns: [city]}\n- minmax: {columns: ['*']}",
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_numpy_transform_matches_polars_pipeline(name: str, tmp_path: Path) -> None:
    frame = mixed_table(300)
    prepared = prepare_yaml(tmp_path, HEAD + PIPELINES[name], frame)
    transform = load_transform(tmp_path / "out" / "transform.json")
    table = prepared.table("train").select(
        pl.col(name).cast(pl.Float64) for name in transform.outputs
    )
    columns = {column.name: frame[column.name].to_list() for column in transform.inputs}
    batch = transform.numbers(columns)
    np.testing.assert_allclose(
        batch, table.fill_null(float("nan")).to_numpy(), rtol=1e-9, atol=1e-9
    )
    for row in (0, 7, 299):
        alone = transform.numbers({name: [values[row]] for name, values in columns.items()})
        np.testing.assert_allclose(alone[0], batch[row], rtol=1e-12, atol=1e-12)
    assert transform.matrix(columns).dtype == np.float32
    assert prepared.manifest.features == transform.outputs


def test_target_encoding_is_out_of_fold_in_training_only(tmp_path: Path) -> None:
    frame = mixed_table(600)
    prepared = prepare_yaml(tmp_path, HEAD + "- target: {columns: [city], smoothing: 5}", frame)
    assert prepared.transform
    served = prepared.transform.numbers(
        {name: frame[name].to_list() for name in (c.name for c in prepared.transform.inputs)}
    )
    place = prepared.transform.outputs.index("city_target")
    mean = frame["label"].mean()
    for city, rows in frame.filter(pl.col("city").is_not_null()).group_by("city"):
        expected = (rows["label"].sum() + 5 * mean) / (rows.height + 5)
        at = (frame["city"] == city[0]).fill_null(False).arg_true()
        np.testing.assert_allclose(served[at.to_numpy(), place], expected)
        trained = prepared.table("train")["city_target"].gather(at)
        assert trained.n_unique() > 1 or rows.height < 10  # every fold has its own mean
        # a row's own label moves its serving value, but never the one it is trained with
    unseen = prepared.transform.numbers(
        {c.name: ["nowhere" if c.name == "city" else 1.0] for c in prepared.transform.inputs}
    )
    assert unseen[0, place] == pytest.approx(mean)


def test_scalers_match_scikit_learn(tmp_path: Path) -> None:
    frame = mixed_table(500).with_columns(pl.col("a").fill_null(1.0), pl.col("b").fill_null(1.0))
    raw = frame.select("a", "b").to_numpy()
    for step, scaler in (
        ("zscore: {columns: [a, b]}", preprocessing.StandardScaler()),
        ("minmax: {columns: [a, b]}", preprocessing.MinMaxScaler()),
        ("robust: {columns: [a, b]}", preprocessing.RobustScaler()),
        ("unit_length: {columns: [a, b]}", preprocessing.Normalizer()),
        (
            "quantile: {columns: [a, b], points: 500}",
            preprocessing.QuantileTransformer(n_quantiles=500),
        ),
    ):
        prepared = prepare_yaml(tmp_path, HEAD + f"- {step}", frame)
        np.testing.assert_allclose(
            prepared.table("train").select("a", "b").to_numpy(),
            scaler.fit_transform(raw),
            atol=1e-9,
        )


def test_impute_by_group_uses_median_and_mode_of_group(tmp_path: Path) -> None:
    frame = mixed_table(900).with_columns(
        city=pl.when(pl.col("id") % 50 == 1).then(pl.lit("")).otherwise("city")
    )
    steps = "- impute: {columns: [a], value: median, by: city}\n- impute: {columns: [n, tag], value: mode, by: city}\n"
    frame = frame.with_columns(
        n=pl.when(pl.col("id") % 3 > 0).then("n"),
        tag=pl.when(pl.col("id") % 4 > 0).then(pl.col("n").cast(str)),
    )
    prepared = prepare_yaml(tmp_path, HEAD + steps + "- ordinal: {columns: [tag]}", frame)
    seen = set()
    table = prepared.table("train").with_columns(city=frame["city"])
    for name in frame["city"].unique().to_list():
        rows = frame.filter(pl.col("city").eq_missing(name))
        whole = frame if name is None else rows  # a row of no group has what all rows have
        for column, value in (("a", whole["a"].median()), ("n", _mode(whole["n"]))):
            at = rows[column].is_null().to_numpy()
            filled = table.filter(pl.col("city").eq_missing(name))[column].to_numpy()[at]
            np.testing.assert_allclose(filled, value)
            seen.add((column, float(value)))
    assert len(seen) > 4


def _mode(column: pl.Series) -> float:
    counts = column.drop_nulls().value_counts(name="count").rows()
    return float(min(counts, key=lambda pair: (-pair[1], str(pair[0])))[0])


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 5) | st.none()), max_size=60),
    st.integers(0, 60),
)
def test_merged_group_statistics_match_full_table(
    rows: list[tuple[str, int | None]], cut: int
) -> None:
    frame = pl.DataFrame(rows, schema={"g": pl.String, "v": pl.Int64}, orient="row")
    parts = (frame[:cut], frame[cut:])
    medians, counts = (
        GroupQuantilesRequest(column="v", by="g"),
        GroupCountsRequest(column="v", by="g"),
    )
    first, second = (medians.collect(part) for part in parts)
    whole = {
        group: np.median([v for g, v in rows if g == group and v is not None])
        for group, v in rows
        if v is not None
    }
    assert first.merge(second).medians() == whole
    one, other = (counts.collect(part) for part in parts)
    assert one.merge(other).modes() == counts.collect(frame).modes()


def test_group_quantiles_are_thinned_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.datasets.group_aggregates.POINTS", 1000)
    values = np.random.default_rng(0).normal(size=40_000)
    frame = pl.DataFrame({"v": values, "g": ["big"] * 39_990 + ["small"] * 10})
    request = GroupQuantilesRequest(column="v", by="g")
    merged = request.collect(frame[:15_000]).merge(request.collect(frame[15_000:]))
    assert len(merged.values) < 2100
    assert merged.medians()["big"] == pytest.approx(np.median(values[:39_990]), abs=5e-3)


def test_power_exponents_match_scipy(tmp_path: Path) -> None:
    frame = mixed_table(500).with_columns(pl.col("b").fill_null(1.0), pl.col("a").fill_null(1.0))
    prepared = prepare_yaml(
        tmp_path, HEAD + "- power: {columns: [b], method: box_cox}\n- power: {columns: [a]}", frame
    )
    np.testing.assert_allclose(
        prepared.table("train")["b"].to_numpy(), stats.boxcox(frame["b"].to_numpy())[0], rtol=1e-4
    )
    np.testing.assert_allclose(
        prepared.table("train")["a"].to_numpy(),
        stats.yeojohnson(frame["a"].to_numpy())[0],
        rtol=1e-4,
    )


def test_statistics_use_training_rows_only(tmp_path: Path) -> None:
    frame = mixed_table(400)
    prepared = prepare_yaml(
        tmp_path,
        HEAD
        + "- impute: {columns: [a], value: mean}\n- zscore: {columns: [a]}\nsplit: {test: 0.5}",
        frame,
    )
    train, test = prepared.table("train")["a"], prepared.table("test")["a"]
    assert train.mean() == pytest.approx(0, abs=1e-12)
    assert train.std(ddof=0) == pytest.approx(1)
    assert abs(float(test.mean() or 0)) > 1e-6  # type: ignore[arg-type]


def test_impute_clip_and_zscore_share_one_pass(tmp_path: Path) -> None:
    prepared = prepare_yaml(
        tmp_path,
        HEAD + "- deduplicate: {columns: [id]}\n" + PIPELINES["impute mean, clip, zscore"],
        mixed_table(),
    )
    assert prepared.manifest.lineage.passes == ("keys", "statistics", "write")
    assert prepared.table("train")["a"].mean() == pytest.approx(0, abs=1e-12)
    assert prepared.table("train")["a"].std(ddof=0) == pytest.approx(1)


def test_strings_normalise_unicode_and_white_space() -> None:
    step = Strings(columns=("x",), case="lower", missing=True)
    texts = ["  Ｆｕｌｌ\u00a0width ", "N/A", "", "a\x1cb", "ΣΑΣ", "é", None, "Straße\t\n x"]
    table = pl.DataFrame({"x": texts}).select(step.expressions())["x"].to_list()
    assert table == [None if text is None else step.text(text) for text in texts]
    assert table[:3] == ["full width", None, None]


def test_dates_parse_iso_8601_and_custom_formats(tmp_path: Path) -> None:
    texts = ["2024-02-29T12:34:56.5+02:00", "2024-02-29", "2024-02-29 01:02:03Z", "never", None]
    frame = pl.DataFrame({"t": texts, "id": range(5), "label": [0, 1, 0, 1, 0]})
    prepared = prepare_yaml(
        tmp_path,
        HEAD + "- dates: {columns: [t]}\n- date_parts: {columns: [t], parts: [epoch]}",
        frame,
    )
    assert prepared.manifest.quarantined == 1
    epochs = prepared.table("train")["t_epoch"].to_list()
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert epochs[0] == datetime.datetime(2024, 2, 29, 12, 34, 56, 500000, tzinfo=zone).timestamp()
    assert epochs[3] is None
    assert prepared.transform
    served = prepared.transform.numbers({"t": [*texts[:3], None]})
    np.testing.assert_allclose(served[:3, 0], epochs[:3])
    assert np.isnan(served[3, 0])
    with pytest.raises(InputError, match='column t: row 3: "never" is not datetime'):
        prepared.transform.numbers({"t": texts})  # as training quarantined the row
    own = prepare_yaml(
        tmp_path,
        HEAD + "- dates: {columns: [t], format: '%d.%m.%Y', bad: 'null'}",
        pl.DataFrame({"t": ["01.02.2024", "x"], "id": [1, 2], "label": [0, 1]}),
        name="own",
    )
    assert own.table("train")["t"].to_list() == [datetime.datetime(2024, 2, 1), None]
    assert own.transform
    assert np.isnan(own.transform.numbers({"t": ["x"]})).all()  # as in training


@pytest.mark.parametrize("part", ["hour", "minute", "second"])
def test_date_parts_of_a_day_match_calendar(part: str) -> None:
    stamps = np.random.default_rng(0).integers(-(10**16), 10**16, 1000)  # from 1653 to 2286
    frame = pl.DataFrame(
        {"time": pl.Series([*stamps.tolist(), -1, 0, None]).cast(pl.Datetime("us"))}
    )
    parts = frame.select(DateParts(columns=("time",), parts=(part,)).expressions()).to_series()  # type: ignore[arg-type]
    assert parts.dtype == pl.Int8
    assert parts.to_list() == getattr(frame["time"].dt, part)().to_list()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("- zscore: {columns: [nothing]}", 'no column named "nothing"'),
        ("- zscore: {columns: [city]}", "is String, not number"),
        ("- clip: {columns: [a]}", "needs one way"),
        ("- clip: {columns: [a], quantile: 0.6}", "not below 0.5"),
        ("- clip: {columns: [a], lower: 2, upper: 1}", "not below upper"),
        ("- minmax: {low: 1, high: 0}", "not below high"),
        ("- bucketise: {columns: [a]}", "needs edges or a number"),
        ("- bucketise: {columns: [a], edges: [2, 1]}", "not ascending"),
        ("- polynomial: {columns: [a], degree: 9}", "above 5"),
        ("- filter: {where: 'a >>> 1'}", "is not a condition"),
        ("- filter: {where: 'zzz > 1'}", 'no column named "zzz"'),
        ("- impute: {columns: [a], value: '7', by: city}", "is the same in every group"),
        ("- impute: {value: meidan}", 'did you mean "median"'),
        ("- impute: {columns: [city], value: Mode}", 'did you mean "mode"'),
        ("- zscore: {}\n  minmax: {}", "two steps in one"),
        ("- hash: {columns: [city], buckets: 5000000000}", "too many"),
        ("- onehot: {columns: [city], most: 99999}", "too many"),
        ("- zscor: {}", 'did you mean "zscore"'),
    ],
)
def test_wrong_step_settings_raise_input_error(steps: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepare_yaml(tmp_path, HEAD + steps, mixed_table(50))
    assert message in str(caught.value)
    assert "fix:" in str(caught.value)
