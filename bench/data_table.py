"""The table of the data benchmark: id, eight floats with nulls and outliers, two texts, a time, a label, duplicates.

python bench/data_table.py FOLDER --rows 16000000
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

FILES = 16
CATEGORIES = [f"category-{number}" for number in range(10)]
FLOATS = 8


def part(number: int, rows: int) -> pl.DataFrame:
    """One file: `rows` rows of its own, and 2 % of them once more."""
    rng = np.random.default_rng(number)
    ids = np.arange(number * rows, (number + 1) * rows)
    columns: dict[str, pl.Series] = {"id": pl.Series(ids)}
    for place in range(FLOATS):
        values = rng.normal(place, 1 + place, rows)
        far = rng.random(rows) < 0.001
        values[far] *= 100
        columns[f"f{place}"] = pl.Series(values).set(pl.Series(rng.random(rows) < 0.05), None)
    columns["category"] = pl.Series(np.array(CATEGORIES)[rng.integers(0, 10, rows)])
    columns["user"] = pl.Series(np.char.add("user-", rng.integers(0, 200_000, rows).astype(str)))
    seconds = rng.integers(1_600_000_000, 1_700_000_000, rows)
    columns["time"] = pl.Series(seconds * 1_000_000).cast(pl.Datetime("us"))
    columns["label"] = pl.Series(rng.integers(0, 2, rows)).set(
        pl.Series(rng.random(rows) < 0.01), None
    )
    frame = pl.DataFrame(columns)
    again = rng.choice(rows, rows // 50, replace=False)
    return pl.concat([frame, frame[again]]).sample(fraction=1.0, shuffle=True, seed=number)


def make(folder: Path, rows: int) -> None:
    """Writes the table, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"rows-{rows}"
    if done.exists():
        return
    for old in folder.glob("*"):
        old.unlink()
    for number in range(FILES):
        part(number, rows // FILES).write_parquet(
            folder / f"part-{number:02d}.parquet", row_group_size=1 << 18
        )
    done.touch()


def main() -> None:
    """Makes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=16_000_000)
    arguments = parser.parse_args()
    make(arguments.folder, arguments.rows)


if __name__ == "__main__":
    main()
