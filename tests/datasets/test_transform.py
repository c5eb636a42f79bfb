"""Fitted transforms: files of earlier versions, and names of parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpuyard.datasets.columns import Column
from gpuyard.datasets.steps.step_list import FORMER_PARTS, PARTS
from gpuyard.datasets.transform import FittedTransform, TransformRecord, load_transform
from gpuyard.errors import InputError

# Written by version 0.1 for a table of 60 rows; FEATURES_BY_0_1 is what it returned for ROWS.
SAVED_BY_0_1 = {
    "version": "0123456789abcdef",
    "inputs": [
        {"name": "a", "dtype": "Float64"},
        {"name": "b", "dtype": "Float64"},
        {"name": "n", "dtype": "Int64"},
        {"name": "flag", "dtype": "Boolean"},
        {"name": "city", "dtype": "String"},
        {"name": "code", "dtype": "Int64"},
    ],
    "outputs": ["a", "b", "n", "code", "n_bin", "flag_hash", "city= Lima ", "city=Zürich"],
    "parts": [
        {
            "step": "cast",
            "part": "Converted",
            "state": {"columns": ["n"], "format": "", "kinds": ["number"], "to": "float"},
        },
        {
            "step": "impute",
            "part": "FillNumbers",
            "state": {"columns": ["a", "b"], "values": [3.5929803918381995, 5.44103249463333]},
        },
        {
            "step": "clip",
            "part": "Clipped",
            "state": {"columns": ["a"], "lower": [0.0], "upper": [6.0]},
        },
        {
            "step": "power",
            "part": "Powered",
            "state": {"columns": ["b"], "exponents": [0.0], "method": "log"},
        },
        {
            "step": "quantile",
            "part": "Ranked",
            "state": {
                "column": "a",
                "ranks": [0.0, 0.5, 1.0],
                "values": [0.0, 3.607415695634245, 6.0],
            },
        },
        {
            "step": "bucketise",
            "part": "Bucketed",
            "state": {"column": "n", "edges": [-5.0, 5.0]},
        },
        {
            "step": "hash",
            "part": "Hashed",
            "state": {"buckets": 7, "column": "flag", "texts": False},
        },
        {
            "step": "ordinal",
            "part": "Ordered",
            "state": {"categories": ["0", "1", "2", "3", "4"], "column": "code", "texts": False},
        },
        {
            "step": "onehot",
            "part": "OneHotted",
            "state": {"categories": [" Lima ", "Zürich"], "column": "city", "texts": True},
        },
    ],
}
ROWS = {
    "a": [4.081691169371616, 3.4293182450126816, 3.710745418079843],
    "b": [5.127276338901184, 18.152700620051643, 1.4687343805442792],
    "n": [6, 18, -4],
    "flag": [True, True, True],
    "city": ["Zürich", "Oslo", "Zürich"],
    "code": [1, 2, 2],
}
FEATURES_BY_0_1 = [
    [0.5991136389367678, 1.8127503345546283, 6.0, 1.0, 2.0, 2.0, 0.0, 1.0],
    [0.4753150917931222, 2.9524437302294064, 18.0, 2.0, 2.0, 2.0, 0.0, 0.0],
    [0.5215937474506231, 0.9037056227791401, -4.0, 2.0, 1.0, 2.0, 0.0, 1.0],
]


def saved(folder: Path, record: object) -> Path:
    path = folder / "transform.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def test_transform_of_version_0_1_loads_and_gives_equal_features(tmp_path: Path) -> None:
    transform = load_transform(saved(tmp_path, SAVED_BY_0_1))
    np.testing.assert_allclose(transform.numbers(ROWS), FEATURES_BY_0_1, rtol=1e-12)


def test_former_part_names_map_to_existing_parts() -> None:
    assert set(FORMER_PARTS.values()) <= set(PARTS)
    assert not set(FORMER_PARTS) & set(PARTS)


def test_part_names_of_saved_transforms_are_stable() -> None:
    names = {name for name, part in PARTS.items() if hasattr(part, "numpy_operation")}
    assert names == {
        "Affine", "ConversationState", "DateParts", "Drop", "FillGroup", "FillGroupTexts", "FillNumbers", "FillTexts",
        "FittedBuckets", "FittedCast", "FittedClip", "FittedHash", "FittedOneHot", "FittedOrdinal",
        "FittedPower", "FittedQuantileMap", "HashWords", "Pixels", "Polynomial", "PreferenceState",
        "PythonColumns", "SeriesColumns", "Strings",
        "TargetMeans", "TermWeights", "TokenizerState", "UnitLength",
    }  # fmt: skip


def test_unknown_part_raises_input_error(tmp_path: Path) -> None:
    part = {"step": "cast", "part": "Warped", "state": {}}
    with pytest.raises(InputError, match='unknown part "Warped"'):
        load_transform(saved(tmp_path, {**SAVED_BY_0_1, "parts": [part]}))


def test_text_that_is_not_a_time_names_column_row_and_value() -> None:
    record = TransformRecord(
        version="t", inputs=(Column(name="at", dtype="Datetime('us')"),), outputs=("at",), parts=()
    )
    transform = FittedTransform(record)
    assert transform.numbers({"at": ["1970-01-02", None]})[0, 0] == 86_400e6
    with pytest.raises(InputError, match='column at: row 1: "11/11/07" is not a time'):
        transform.numbers({"at": ["1970-01-02", "11/11/07"]})
