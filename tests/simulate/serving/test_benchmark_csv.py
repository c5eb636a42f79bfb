"""Tables of measured serving runs."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.simulate.serving.benchmark_csv import NEEDED, read_table
from gpuyard.simulate.serving.score import measured, score

CURATED = Path(__file__).parents[2] / "accuracy" / "inference_runs.csv"


def test_a_table_needs_few_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    cells = (
        "1",
        "own",
        "32",
        "4096",
        "32",
        "32000",
        "H100",
        "1",
        "vLLM",
        "fixed concurrency",
        "500",
        "100",
    )
    text = f"{','.join(NEEDED)},concurrency,tp,tpot_ms_mean,engine_ver,ffn\n{','.join(cells)},8,1,9.5,0.19.0,11008\n"
    path.write_text(text, encoding="utf-8")
    found = score(read_table(path), load_catalog())
    assert (found.rows, found.scored, found.metrics.tpot.rows) == (1, 1, 1)


def test_the_curated_table_is_one() -> None:
    assert len(read_table(CURATED)) == 198


def test_every_column_that_the_model_reads_is_kept() -> None:
    catalog = load_catalog()
    with CURATED.open(encoding="utf-8", newline="") as lines:
        whole = read_cases(csv.DictReader(lines), catalog).cases
    kept = read_cases(read_table(CURATED), catalog).cases
    assert [replace(case, row={}) for case in kept] == [replace(case, row={}) for case in whole]
    assert np.array_equal(
        [measured(c.row) for c in kept], [measured(c.row) for c in whole], equal_nan=True
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the file is empty"),
        ("id,model\n", "no column layers"),
        (",".join(NEEDED) + "\n", "no runs"),
    ],
)
def test_a_wrong_table_says_where_and_how_to_mend_it(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=what):
        read_table(path)


def test_a_missing_table_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_table(tmp_path / "none.csv")
