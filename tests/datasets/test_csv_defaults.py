"""CSV as R and pandas write it: words for missing values, and row numbers without a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.spec import DataSpec, ReadSpec
from gpuyard.errors import InputError


def prepared(folder: Path, text: str, **fields: object) -> PreparedDataset:
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    spec = DataSpec(source="rows.csv", **fields)  # type: ignore[arg-type]
    return prepare(spec, base=folder, out=folder / "out")


def test_words_for_missing_values_are_nulls(tmp_path: Path) -> None:
    text = "mass,sex\n1.5,male\nNA,NA\nN/A,female\nnull,NaN\n2.5,\n"
    rows = prepared(tmp_path, text).table("train")
    assert rows["mass"].to_list() == [1.5, None, None, None, 2.5]
    assert rows["sex"].to_list() == ["male", None, "female", None, None]


def test_null_words_can_be_disabled(tmp_path: Path) -> None:
    text = "country,count\nNA,1\nDE,2\n"
    rows = prepared(tmp_path, text, read=ReadSpec(nulls=())).table("train")
    assert rows["country"].to_list() == ["NA", "DE"]


def test_column_without_a_name_is_refused_until_it_is_ignored(tmp_path: Path) -> None:
    text = '"","x","y"\n"1",0.5,1\n"2",0.25,0\n'
    with pytest.raises(InputError) as caught:
        prepared(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.where == "rows.csv: column 1"
    assert 'ignore: [""]' in problem.fix
    assert prepared(tmp_path, text, ignore=("",)).manifest.features == ("x", "y")


def test_rows_that_do_not_fit_next_to_a_column_without_a_name_are_no_traceback(
    tmp_path: Path,
) -> None:
    text = "3,7.25,a,\n\n1,0.5,a,2026-01-01\n2,,b,2026-01-02\nid,x,en\n4,1e3,b,20x"
    with pytest.raises(InputError) as caught:
        prepared(tmp_path, text)
    assert "column 4" in str(caught.value)
    assert prepared(tmp_path, text, ignore=("",)).table("train").columns == ["3", "7.25", "a"]
