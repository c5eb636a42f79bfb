"""Summary of a dataset, and the differences between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets.columns import Column
from gpuyard.datasets.manifest import DatasetManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSummary:
    """Columns and rows of a prepared dataset or a source."""

    path: str
    columns: tuple[Column, ...]
    rows: int
    manifest: DatasetManifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference between two datasets."""

    what: str
    before: str
    after: str


def diff_data(first: DatasetSummary, second: DatasetSummary) -> tuple[Difference, ...]:
    """Return the differences in rows and columns, and of prepared data in counts and lineage."""
    pairs = [("rows", f"{first.rows:,}", f"{second.rows:,}")]
    types = [
        {column.name: column.dtype for column in summary.columns} for summary in (first, second)
    ]
    pairs += _by_name("column", types[0], types[1], "–")
    if first.manifest and second.manifest:
        pairs += _manifest_pairs(first.manifest, second.manifest)
    return tuple(
        Difference(what=what, before=before, after=after)
        for what, before, after in pairs
        if before != after
    )


def _by_name(
    kind: str, before: Mapping[str, str], after: Mapping[str, str], missing: str
) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*before, *after)):
        yield f"{kind} {name}", before.get(name, missing), after.get(name, missing)


def _manifest_pairs(first: DatasetManifest, second: DatasetManifest) -> list[tuple[str, str, str]]:
    rows = [
        {split.name: f"{split.rows:,}" for split in manifest.splits} for manifest in (first, second)
    ]
    files = [
        {Path(file.path).name: file.fingerprint[:12] for file in manifest.lineage.files}
        for manifest in (first, second)
    ]
    return [
        ("version", first.version, second.version),
        ("label", str(first.label), str(second.label)),
        ("problem", str(first.problem), str(second.problem)),
        ("classes", ", ".join(first.classes), ", ".join(second.classes)),
        ("code", first.lineage.code, second.lineage.code),
        ("source", first.lineage.source, second.lineage.source),
        ("settings", first.lineage.spec.text, second.lineage.spec.text),
        ("dropped", f"{first.dropped:,}", f"{second.dropped:,}"),
        ("quarantined", f"{first.quarantined:,}", f"{second.quarantined:,}"),
        *_by_name("split", rows[0], rows[1], "0"),
        *_by_name("file", files[0], files[1], "–"),
    ]
