"""Datasets that Hugging Face's `datasets` saved on disk (`save_to_disk`): streams of Arrow batches.

A folder holds `state.json` with its files in order; a folder of several splits holds
`dataset_dict.json` with their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from gpuyard.document.frozen_json import Plain
from gpuyard.document.read import parse_json, read_text
from gpuyard.errors import InputError, choices_text

STATE, SPLITS = "state.json", "dataset_dict.json"
ARROW_STREAM = "arrow stream"


def saved_dataset(folder: Path, source: str) -> list[str] | None:
    """Return the files of a saved dataset in order; None if the folder is not one."""
    if (folder / SPLITS).is_file():
        names = _read(folder / SPLITS).get("splits")
        splits = [str(name) for name in names] if isinstance(names, list) else []
        fix = f"use source: {source.rstrip('/')}/{splits[0] if splits else 'SPLIT'}"
        raise InputError.one(source, f"holds the splits {choices_text(splits)}", fix)
    if not (folder / STATE).is_file() or not (folder / "dataset_info.json").is_file():
        return None
    state = _read(folder / STATE)
    if state.get("_indices_data_files"):
        what = "holds rows that are selected or shuffled by an index"
        raise InputError.one(source, what, "save `dataset.flatten_indices()` instead")
    files = state.get("_data_files")
    rows = files if isinstance(files, list) else []
    names = [row.get("filename") if isinstance(row, dict) else None for row in rows]
    if not names or not all(isinstance(name, str) for name in names):
        what = f"{STATE} names no data files"
        raise InputError.one(source, what, "save the dataset again")
    return [str(folder / str(name)) for name in names]


def _read(path: Path) -> dict[str, Plain]:
    tree = parse_json(read_text(path), str(path))
    return tree if isinstance(tree, dict) else {}


def arrow_frames(paths: Sequence[str], chunk_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of Arrow streams, about `chunk_bytes` at a time."""
    for path in paths:
        batches: list[pa.RecordBatch] = []
        size_bytes = 0
        try:
            with pa.OSFile(path, "rb") as file, pa.ipc.open_stream(file) as stream:
                for batch in stream:
                    batches.append(batch)
                    size_bytes += batch.nbytes
                    if size_bytes >= chunk_bytes:
                        yield _frame(batches)
                        batches, size_bytes = [], 0
        except FileNotFoundError:
            raise InputError.one(path, "no such file", "save the dataset again") from None
        except pa.ArrowInvalid as error:
            what = f"is not a stream of Arrow batches: {error}"
            raise InputError.one(path, what, "save the dataset again") from None
        if batches:
            yield _frame(batches)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame
