"""Raw columns of the source, and which of its rows became a split, in the prepared order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from gpuyard.datasets.data_pass import SaveRows, pruned_pass
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.fitting import PipelineInput, fit_steps
from gpuyard.datasets.passes import FramePasses
from gpuyard.datasets.prepare import (
    MEMORY_BYTES,
    named_steps,
    null_floats,
    partition_bytes,
    source_columns,
)
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.source.open import open_source
from gpuyard.datasets.source.partitions import read_partition
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.split import SPLIT, SPLITS
from gpuyard.datasets.step import ROW
from gpuyard.datasets.version import version_of
from gpuyard.datasets.writing import BASE_ROWS
from gpuyard.document.encode import load_json
from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceRows:
    """Raw columns of all rows, and the positions of those of a split."""

    frame: pl.DataFrame
    positions: pl.Series

    @property
    def split(self) -> pl.DataFrame:
        """The raw columns of the rows of the split."""
        return self.frame[self.positions]


def source_rows(prepared: PreparedDataset, split: str) -> SourceRows:
    """Return the raw columns of the source, split again.

    Raises InputError if the source has changed, or if it is too large to hold in memory.
    """
    manifest = prepared.manifest
    where = str(prepared.folder)
    if manifest.kind != "table":
        raise InputError.one(where, f"holds {manifest.kind}", "use a dataset that is a table")
    if manifest.rows_in > BASE_ROWS:
        what = f"{manifest.rows_in:,} rows are too many to read again"
        raise InputError.one(where, what, f"use at most {BASE_ROWS:,} rows")
    spec = load_json(manifest.lineage.spec.text, DataSpec)
    with TemporaryDirectory(prefix="gpuyard-rows-") as work:
        source = open_source(
            spec,
            base=Path(manifest.lineage.base),
            work=Path(work),
            partition_bytes=partition_bytes(spec, MEMORY_BYTES, LocalDataEngine()),
        )
        if version_of(spec, source.files) != manifest.version:
            raise InputError.one(
                spec.source, "changed since the data was prepared", "run `gpuyard data run` again"
            )
        columns = source_columns(spec, source.schema)
        parts = [
            read_partition(partition, source.file_format, columns.names)
            for partition in source.partitions
        ]
        frame = pl.concat(parts).with_row_index(ROW)
        frame = frame.with_columns(pl.col(ROW).cast(pl.UInt64))
        inputs = PipelineInput(
            spec=spec,
            steps=named_steps(spec, columns),
            columns=columns,
            file_format=source.file_format,
            floats=null_floats(spec, source.schema),
        )
        rows = _rows_of_split(inputs, frame, split)
    expected = manifest.split(split)
    if expected is None or len(rows) != expected.rows:
        what = f"the {split} split holds other rows than the source gives now"
        raise InputError.one(where, what, "run `gpuyard data run` again")
    return SourceRows(frame=frame.drop(ROW), positions=rows.sort())


def _rows_of_split(inputs: PipelineInput, frame: pl.DataFrame, split: str) -> pl.Series:
    """Return the numbers of the rows that the steps keep and assign to the split."""
    passes = FramePasses(frame=frame)
    fitted = fit_steps(inputs, passes, memory_bytes=MEMORY_BYTES)
    rows = SaveRows(folder="", columns=())
    actions = (*fitted.actions, rows)
    data_pass = pruned_pass("rows", inputs.file_format, actions, inputs.floats)
    data_pass = replace(data_pass, actions=data_pass.actions[:-1])
    left = passes.after(data_pass, fitted.row_arrays)
    if SPLIT not in left.columns:  # nothing is held out: all rows are for training
        return left[ROW] if split == SPLITS[0] else left[ROW].clear()
    return left.filter(pl.col(SPLIT) == SPLITS.index(split))[ROW]
