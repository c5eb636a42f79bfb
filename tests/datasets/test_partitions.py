"""Partitions cover every row once, whatever the row groups of the files are."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from gpuyard.datasets.source.partitions import make_partitions, read_partition, schema_of
from gpuyard.errors import ExternalError, InputError


@pytest.mark.parametrize("target_bytes", [100.0, 500.0, 1e9])
@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_partitions_cover_every_row_once(
    tmp_path: Path, file_format: str, target_bytes: float
) -> None:
    frame = pl.DataFrame({"x": range(100)})
    paths = [str(tmp_path / name) for name in ("a", "b", "empty")]
    for path, rows in zip(paths, (frame[:30], frame[30:], frame[:0]), strict=True):
        if file_format == "parquet":
            rows.write_parquet(path, row_group_size=7)
        else:
            rows.write_ipc(path)
    partitions = make_partitions(paths, file_format, target_bytes)
    read = [read_partition(partition, file_format, ["x"]) for partition in partitions]
    assert pl.concat(read).equals(frame)
    assert [part.height for part in read] == [partition.rows for partition in partitions]
    starts = [partition.start for partition in partitions]
    assert starts == [0, *pl.Series([part.height for part in read]).cum_sum().to_list()[:-1]]
    assert (len(partitions) == 1) == (target_bytes == 1e9)


@pytest.mark.slow
def test_damaged_arrow_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    pl.DataFrame({"x": [1.0, 2.0, 3.0] * 50, "s": ["a", "bb", None] * 50}).write_ipc(path)
    intact, panics = path.read_bytes(), 0
    draw = random.Random(1)
    for _ in range(400):
        damaged = bytearray(intact)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            schema = schema_of([str(path)], "arrow")
            for partition in make_partitions([str(path)], "arrow", 1e6):
                read_partition(partition, "arrow", list(schema))
        except InputError as error:
            panics += isinstance(error.__context__, pl.exceptions.PanicException)
        except ExternalError:
            pass
    assert panics  # otherwise nothing was tested
