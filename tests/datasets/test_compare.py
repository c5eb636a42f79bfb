"""Differences between two datasets."""

from __future__ import annotations

from pathlib import Path

from gpuyard.datasets.columns import Column
from gpuyard.datasets.compare import DatasetSummary, diff_data

from .tables import mixed_table, prepare_yaml


def test_diff_of_sources_lists_rows_and_columns() -> None:
    first = DatasetSummary(path="a", rows=1000, columns=(Column(name="x", dtype="Int64"),))
    second = DatasetSummary(path="b", rows=1001, columns=(Column(name="y", dtype="Int64"),))
    assert [(entry.what, entry.before, entry.after) for entry in diff_data(first, second)] == [
        ("rows", "1,000", "1,001"),
        ("column x", "Int64", "–"),
        ("column y", "–", "Int64"),
    ]
    assert diff_data(first, first) == ()


def test_diff_of_prepared_datasets_lists_settings_and_splits(tmp_path: Path) -> None:
    manifests = [
        prepare_yaml(
            tmp_path, f"source: table.parquet\nsplit: {{test: {ratio}}}", frame, name=f"out{ratio}"
        ).manifest
        for ratio, frame in ((0.5, mixed_table(100)), (0.25, None))
    ]
    first, second = (
        DatasetSummary(path="", rows=manifest.rows_out, columns=manifest.schema, manifest=manifest)
        for manifest in manifests
    )
    differences = {entry.what: (entry.before, entry.after) for entry in diff_data(first, second)}
    assert set(differences) == {"version", "settings", "split train", "split test"}
    assert differences["split test"] == ("50", "25")
