"""A function of the user's own as a step: training equals serving, errors name file and line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.folds import folds
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.transform import load_transform
from gpuyard.datasets.user_code import digest_of_code
from gpuyard.document.encode import load_json
from gpuyard.errors import InputError

CODE = '''"""Steps of this project."""
import polars as pl


def add_ratio(rows):
    full = pl.col("first").fill_null("?") + "-" + pl.col("day").dt.weekday().cast(pl.String)
    return rows.select(
        ratio=pl.col("debt") / pl.col("income"),
        late=pl.col("day").dt.hour() >= 12,
        code=full,
        whole=pl.col("income").cast(pl.Int64),
    )
'''
ADDS = {"ratio": "float", "late": "bool", "code": "text", "whole": "int"}


def rows() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    count = 400
    debt = [None if at % 17 == 0 else float(rng.normal()) for at in range(count)]
    return pl.DataFrame(
        {
            "debt": debt,
            "income": [0 if at % 50 == 0 else at for at in range(count)],
            "first": [None if at % 13 == 0 else "ab"[at % 2] for at in range(count)],
            "day": [f"2024-01-{1 + at % 28:02d}T{at % 24:02d}:00:00" for at in range(count)],
            "y": [at % 3 == 0 for at in range(count)],
        }
    ).with_columns(pl.col("day").str.to_datetime(time_unit="us", time_zone="UTC"))


def prepared_with(
    folder: Path, code: str = CODE, adds: dict[str, str] | None = None, **more: object
) -> PreparedDataset:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steps.py").write_text(code, encoding="utf-8")
    rows().write_parquet(folder / "rows.parquet")
    step = {"file": "steps.py", "function": "add_ratio", "adds": adds or ADDS, **more}
    spec = {
        "source": "rows.parquet",
        "label": "y",
        "steps": [
            {"python": step},
            {"impute": {"value": "median"}},
            {"zscore": {"columns": ["ratio"]}},
            {"onehot": {"columns": ["code"]}},
            {"drop": {"columns": ["first", "day"]}},
        ],
        "split": {"test_ratio": 0.2, "seed": 1},
    }
    return prepare(load_json(json.dumps(spec), DataSpec), base=folder, out=folder / "out")


def test_serving_equals_training(tmp_path: Path) -> None:
    prepared = prepared_with(tmp_path)
    features = prepared.manifest.features
    assert {"ratio", "late", "whole"} <= set(features)
    shard = prepared.manifest.split("train").shards[0]
    training = pl.read_parquet(tmp_path / "out" / shard.path).select(features)
    transform = load_transform(tmp_path / "out" / "transform.json")
    frame = rows()
    columns = {
        "debt": frame["debt"].to_list(),
        "income": frame["income"].to_list(),
        "first": frame["first"].to_list(),
        "day": [value.isoformat() for value in frame["day"].to_list()],
    }
    served = transform.matrix(columns)
    alone = np.concatenate(
        [
            transform.matrix({name: [values[at]] for name, values in columns.items()})
            for at in range(40)
        ]
    )
    assert np.array_equal(alone, served[:40], equal_nan=True)
    rows_served = {tuple(row) for row in served.tolist()}
    rows_trained = {tuple(np.float32(value) for value in row) for row in training.rows()}
    assert rows_trained <= rows_served
    assert len(rows_trained) > 100


def test_transform_holds_the_code_and_its_digest(tmp_path: Path) -> None:
    prepared = prepared_with(tmp_path / "one")
    text = (tmp_path / "one" / "out" / "transform.json").read_text(encoding="utf-8")
    assert digest_of_code(CODE) in text
    assert str(tmp_path) not in text
    same = prepared_with(tmp_path / "two")
    assert same.manifest.version == prepared.manifest.version
    other = prepared_with(tmp_path / "three", CODE + "\n# another\n")
    assert other.manifest.version != prepared.manifest.version


def test_folds_use_the_code_that_prepared_the_data(tmp_path: Path) -> None:
    prepared = prepared_with(tmp_path)
    (tmp_path / "steps.py").write_text("raise RuntimeError", encoding="utf-8")
    first, second = folds(prepared, count=2)
    assert "ratio" in first.train.names
    assert "ratio" in second.train.names


def test_code_that_is_not_allowed_is_refused_before_it_runs(tmp_path: Path) -> None:
    prepared_with(tmp_path)
    path = tmp_path / "out" / "transform.json"
    with pytest.raises(InputError, match="--allow-code"):
        load_transform(path, allow_code=False)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("rows.select", "rows.filter"), encoding="utf-8")
    with pytest.raises(InputError, match="SHA-256 mismatch"):
        load_transform(path)


@pytest.mark.parametrize(
    ("code", "place", "says"),
    [
        ("def add_ratio(rows):\n    return 1 / 0\n", "steps.py:2", "ZeroDivisionError"),
        ("def add_ratio(rows:\n", "steps.py:1", "not Python"),
        ("import nothing_of_this_name\n", "steps.py:1", "ModuleNotFoundError"),
        ("x = 1\n", "steps.py", 'no function "add_ratio"'),
        ("def add_ratio(rows):\n    return {'other': rows['debt']}\n", "add_ratio", "declares"),
        ("def add_ratio(rows):\n    return {'z': [1.0]}\n", "add_ratio", "1 rows for"),
        ("def add_ratio(rows):\n    return {'z': rows['first']}\n", "add_ratio", "declares float"),
        ("def add_ratio(rows):\n    return 'text'\n", "add_ratio", "returned str"),
        (
            "def add_ratio(rows):\n    return {'z': rows['income'] - rows['income'].mean()}\n",
            "add_ratio",
            "depends on the other rows",
        ),
    ],
)
def test_wrong_code_is_an_error_with_its_place(
    tmp_path: Path, code: str, place: str, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        prepared_with(tmp_path, code, {"z": "float"})
    (problem,) = caught.value.problems
    assert place in problem.where
    assert says in problem.what


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"columns": ["y"]}, "takes the label"),
        ({"adds": {"debt": "float"}}, "already exists"),
        ({"columns": ["none"]}, 'no column named "none"'),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, more: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        prepared_with(tmp_path, **more)  # type: ignore[arg-type]
