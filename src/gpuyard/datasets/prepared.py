"""A folder of prepared data as a value: its manifest, its fitted transform, its rows as tables and arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.datasets.manifest import Manifest
from gpuyard.datasets.text.shards import TokenShards, read_tokens
from gpuyard.datasets.transform import FittedTransform, load_transform
from gpuyard.document import load_json, read_text
from gpuyard.errors import InputError, one_of

__all__ = ["Arrays", "Prepared", "arrays_of", "load_prepared"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays:
    """Rows as a trainer wants them; a class of the label is its number in `Manifest.classes`."""

    x: np.ndarray  # float32 [rows, features], C order
    y: np.ndarray | None  # int64 for classes, float64 for numbers
    names: tuple[str, ...]
    groups: np.ndarray | None = None
    times: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """Prepared data in its folder."""

    folder: Path
    manifest: Manifest
    transform: FittedTransform | None

    def table(self, split: str) -> pl.DataFrame:
        """The rows of a split; InputError if there is no such split."""
        paths = self.paths(split)
        if not paths:
            return pl.DataFrame(schema={column.name: pl.Null for column in self.manifest.schema})
        return pl.read_parquet(paths, glob=False)

    def paths(self, split: str) -> list[Path]:
        """The shards of a split, in order."""
        found = self.manifest.split(split)
        if found is None:
            names = [one.name for one in self.manifest.splits]
            raise InputError.one(str(self.folder), f'no split named "{split}"', f"use {one_of(names)}")
        return [self.folder / shard.path for shard in found.shards]

    def arrays(self, split: str) -> Arrays:
        """The rows of a split as arrays."""
        return arrays_of(self.table(split), self.manifest)

    def tokens(self, split: str) -> TokenShards:
        """The packed sequences of a split, memory mapped."""
        return read_tokens(self.paths(split))


def arrays_of(table: pl.DataFrame, manifest: Manifest) -> Arrays:
    """A table of prepared rows as arrays."""
    features = manifest.features
    x = table.select(pl.col(name).cast(pl.Float32) for name in features).fill_null(float("nan")).to_numpy()
    settings = manifest.lineage.spec.plain()
    split = settings.get("split") if isinstance(settings, dict) else None
    keys = split if isinstance(split, dict) else {}
    group, time = keys.get("group"), keys.get("time")
    return Arrays(
        x=np.ascontiguousarray(x, dtype=np.float32).reshape(len(table), len(features)),
        y=_label(table, manifest),
        names=features,
        groups=table[str(group)].to_numpy() if group and str(group) in table.columns else None,
        times=table[str(time)].to_numpy() if time and str(time) in table.columns else None,
    )


def _label(table: pl.DataFrame, manifest: Manifest) -> np.ndarray | None:
    """The label as numbers."""
    if manifest.label is None:
        return None
    label = table[manifest.label]
    if manifest.problem != "classification":
        return label.cast(pl.Float64).to_numpy()
    if label.dtype == pl.Boolean:
        label = label.cast(pl.Int64)
    whole = label.cast(pl.Int64) if label.dtype.is_float() else label
    places = list(range(len(manifest.classes)))
    texts = whole.cast(pl.String)
    return texts.replace_strict(list(manifest.classes), places, return_dtype=pl.Int64).to_numpy()


def load_prepared(folder: Path) -> Prepared:
    """The prepared data of a folder; InputError if it is not one."""
    file = folder / "manifest.json"
    if not file.is_file():
        raise InputError.one(str(folder), "no manifest.json in it", "prepare it by `gpuyard data run`")
    manifest = load_json(read_text(file, 1 << 28), Manifest, str(file))
    saved = folder / "transform.json"
    return Prepared(folder=folder, manifest=manifest, transform=load_transform(saved) if saved.is_file() else None)
