"""Tables and prepared datasets for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.datasets.engines.data_engine import DataEngine
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml


def parse_spec(text: str) -> DataSpec:
    return decode(read_yaml(text, "data.yaml").root, DataSpec, Keys.BARE)


def prepare_yaml(
    tmp_path: Path,
    text: str,
    frame: pl.DataFrame | None = None,
    *,
    name: str = "out",
    engine: DataEngine | None = None,
    memory_bytes: float = 2e9,
) -> PreparedDataset:
    """Prepare a dataset from YAML; `frame` is written as table.parquet first."""
    if frame is not None:
        frame.write_parquet(tmp_path / "table.parquet", row_group_size=500)
    return prepare(
        parse_spec(text),
        base=tmp_path,
        out=tmp_path / name,
        engine=engine,
        memory_bytes=memory_bytes,
    )


def mixed_table(rows: int = 2000, seed: int = 0) -> pl.DataFrame:
    """Return a table with every kind of column, nulls, outliers and duplicates."""
    rng = np.random.default_rng(seed)

    def holes(values: pl.Series, part: float) -> pl.Series:
        return values.set(pl.Series(rng.random(rows) < part), None)

    seconds = pl.Series(rng.integers(0, 2_000_000_000, rows) * 1_000_000).cast(pl.Datetime("us"))
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "a": holes(pl.Series(rng.normal(3, 2, rows)), 0.1),
            "b": holes(pl.Series(rng.exponential(5, rows) + 0.1), 0.1),
            "n": rng.integers(-20, 20, rows),
            "flag": rng.random(rows) < 0.4,
            "city": holes(
                pl.Series(
                    rng.choice(
                        ["Zürich", "Oslo", " Lima ", "Rome", "RARE"],
                        rows,
                        p=[0.4, 0.3, 0.2, 0.09, 0.01],
                    )
                ),
                0.05,
            ),
            "code": rng.integers(0, 5, rows),
            "when": holes(seconds, 0.05),
            "label": (rng.random(rows) < 0.3).astype(np.int64),
        }
    )
