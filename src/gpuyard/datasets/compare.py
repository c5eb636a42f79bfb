"""What a set of data holds, and in what two of them differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets.columns import Column
from gpuyard.datasets.manifest import Manifest

__all__ = ["Difference", "Shown", "diff_data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a folder of prepared data or a source holds."""

    path: str
    columns: tuple[Column, ...]
    rows: int
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two sets of data differ."""

    what: str
    before: str
    after: str


def diff_data(first: Shown, second: Shown) -> tuple[Difference, ...]:
    """In what two sets of data differ: columns, rows, and for prepared ones counts, splits and origin."""
    found = [Difference(what="rows", before=f"{first.rows:,}", after=f"{second.rows:,}")]
    before, after = ({one.name: one.dtype for one in shown.columns} for shown in (first, second))
    for name in dict.fromkeys((*before, *after)):
        found.append(Difference(what=f"column {name}", before=before.get(name, "–"), after=after.get(name, "–")))
    if first.manifest and second.manifest:
        found += _manifests(first.manifest, second.manifest)
    return tuple(one for one in found if one.before != one.after)


def _manifests(first: Manifest, second: Manifest) -> list[Difference]:
    """In what two manifests may differ."""
    pairs = [
        ("version", first.version, second.version),
        ("label", str(first.label), str(second.label)),
        ("problem", str(first.problem), str(second.problem)),
        ("classes", ", ".join(first.classes), ", ".join(second.classes)),
        ("code", first.lineage.code, second.lineage.code),
        ("source", first.lineage.source, second.lineage.source),
        ("settings", first.lineage.spec.text, second.lineage.spec.text),
        ("dropped", f"{first.dropped:,}", f"{second.dropped:,}"),
        ("quarantined", f"{first.quarantined:,}", f"{second.quarantined:,}"),
    ]
    sizes = [{split.name: split.rows for split in one.splits} for one in (first, second)]
    for name in dict.fromkeys((*sizes[0], *sizes[1])):
        pairs.append((f"split {name}", f"{sizes[0].get(name, 0):,}", f"{sizes[1].get(name, 0):,}"))
    marks = [{Path(file.path).name: file.fingerprint[:12] for file in one.lineage.files} for one in (first, second)]
    for name in dict.fromkeys((*marks[0], *marks[1])):
        pairs.append((f"file {name}", marks[0].get(name, "–"), marks[1].get(name, "–")))
    return [Difference(what=what, before=before, after=after) for what, before, after in pairs]
