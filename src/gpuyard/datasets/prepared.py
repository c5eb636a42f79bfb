"""Prepared dataset in its folder: manifest, fitted transform, rows as tables and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.datasets.digests import check_files
from gpuyard.datasets.manifest import DatasetManifest, Shard
from gpuyard.datasets.saved_manifest import load_manifest
from gpuyard.datasets.text.shards import TokenShards, read_tokens
from gpuyard.datasets.transform import FittedTransform, load_transform
from gpuyard.errors import InputError, choices_text

TRANSFORM_FILE = "transform.json"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays:
    """Rows for a trainer; a class of the label is its index in `DatasetManifest.classes`."""

    x: np.ndarray  # float32 [rows, features], C order
    y: np.ndarray | None  # int64 for classes, float64 for numbers
    names: tuple[str, ...]
    groups: np.ndarray | None = None
    times: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedDataset:
    """Prepared dataset in its folder."""

    folder: Path
    manifest: DatasetManifest
    transform: FittedTransform | None

    def table(self, split: str) -> pl.DataFrame:
        """Return the rows of a split; raise InputError if it does not exist."""
        paths = self.paths(split)
        if not paths:
            return pl.DataFrame(schema={column.name: pl.Null for column in self.manifest.schema})
        return pl.read_parquet(paths, glob=False)

    def paths(self, split: str) -> list[Path]:
        """Return the shards of a split, in order; raise InputError if one is damaged."""
        entry = self.manifest.split(split)
        if entry is None:
            names = [existing.name for existing in self.manifest.splits]
            raise InputError.one(
                str(self.folder), f'no split named "{split}"', f"use {choices_text(names)}"
            )
        check_files(self.folder, (*entry.shards, *self._companions(f"{entry.name}/")))
        return [self.folder / shard.path for shard in entry.shards]

    def check(self) -> None:
        """Raise InputError if any file is not as it was prepared, for programs that read them."""
        check_files(self.folder, self.manifest.files)

    def _companions(self, prefix: str) -> Iterator[Shard]:
        return (file for file in self.manifest.other_files if file.path.startswith(prefix))

    def arrays(self, split: str) -> Arrays:
        return arrays_of(self.table(split), self.manifest)

    def tokens(self, split: str) -> TokenShards:
        """Return the packed sequences of a split, memory mapped."""
        return read_tokens(self.paths(split))


def arrays_of(table: pl.DataFrame, manifest: DatasetManifest) -> Arrays:
    """Return a table of prepared rows as arrays."""
    features = manifest.features
    floats = table.select(pl.col(name).cast(pl.Float32) for name in features)
    x = floats.fill_null(float("nan")).to_numpy()
    settings = manifest.lineage.spec.plain()
    split = settings.get("split") if isinstance(settings, dict) else None
    keys = split if isinstance(split, dict) else {}
    return Arrays(
        x=np.ascontiguousarray(x, dtype=np.float32).reshape(len(table), len(features)),
        y=_label(table, manifest),
        names=features,
        groups=_column(table, keys.get("group")),
        times=_column(table, keys.get("time")),
    )


def _column(table: pl.DataFrame, name: object) -> np.ndarray | None:
    return table[str(name)].to_numpy() if name and str(name) in table.columns else None


def _label(table: pl.DataFrame, manifest: DatasetManifest) -> np.ndarray | None:
    if manifest.label is None:
        return None
    label = table[manifest.label]
    if manifest.problem != "classification":
        return label.cast(pl.Float64).to_numpy()
    if label.dtype == pl.Boolean or label.dtype.is_float():
        label = label.cast(pl.Int64)
    indices = list(range(len(manifest.classes)))
    texts = label.cast(pl.String)
    return texts.replace_strict(list(manifest.classes), indices, return_dtype=pl.Int64).to_numpy()


def load_prepared(folder: Path) -> PreparedDataset:
    """Return the prepared dataset of a folder; raise InputError if it is not one."""
    transform, manifest = folder / TRANSFORM_FILE, load_manifest(folder)
    check_files(folder, (file for file in manifest.other_files if file.path == TRANSFORM_FILE))
    return PreparedDataset(
        folder=folder,
        manifest=manifest,
        transform=load_transform(transform) if transform.is_file() else None,
    )
