"""Results of partitions on disk, so that a killed run goes on from those that were finished; no pickles."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from gpuyard.datasets.job import Result
from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.step import Aggregate
from gpuyard.document import Plain, dump_json, load_json
from gpuyard.home import write_whole

__all__ = ["load_result", "save_result"]

_ROOM = "gpuyard.datasets."


def save_result(path: Path, result: Result) -> None:
    """Writes the result; the file is there only when it is whole. Marks get files of their own, to be mapped."""
    arrays: dict[str, np.ndarray] = {}
    notes = [_note(aggregate, str(at), arrays) for at, aggregate in enumerate(result.aggregates)]
    for at, marks in enumerate(result.marks):
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(marks), allow_pickle=False)
        write_whole(path.with_suffix(f".{at}.npy"), buffer.getvalue())
    meta: dict[str, object] = {
        "counts": [list(count) for count in result.counts],
        "aggregates": notes,
        "marks": len(result.marks),
        "shards": [[split, json.loads(dump_json(shard))] for split, shard in result.shards],
    }
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def _note(aggregate: object, key: str, arrays: dict[str, np.ndarray]) -> dict[str, object]:
    """An aggregate's class and plain fields; its arrays go to `arrays`."""
    assert dataclasses.is_dataclass(aggregate)
    assert not isinstance(aggregate, type)
    fields: dict[str, object] = {}
    for field in dataclasses.fields(aggregate):
        value = getattr(aggregate, field.name)
        if isinstance(value, np.ndarray):
            arrays[f"{key}.{field.name}"] = value
            fields[field.name] = {"array": f"{key}.{field.name}"}
        else:
            fields[field.name] = {"value": value}
    return {"class": f"{type(aggregate).__module__}:{type(aggregate).__qualname__}", "fields": fields}


def load_result(path: Path) -> Result | None:
    """The result that was saved, its marks memory mapped; None if there is none that is whole."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as saved:
            meta = json.loads(saved["meta"].tobytes())
            aggregates = tuple(_aggregate(note, saved) for note in meta["aggregates"])
        marks = tuple(np.load(path.with_suffix(f".{at}.npy"), mmap_mode="r") for at in range(meta["marks"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    shards = tuple((str(split), load_json(json.dumps(shard), Shard)) for split, shard in meta["shards"])
    counts = tuple((int(step), int(dropped), int(apart)) for step, dropped, apart in meta["counts"])
    return Result(counts=counts, aggregates=aggregates, marks=marks, shards=shards)


def _aggregate(note: dict[str, Plain], saved: np.lib.npyio.NpzFile) -> Aggregate:
    """The aggregate of a note."""
    module, _, name = str(note["class"]).partition(":")
    if not module.startswith(_ROOM):
        raise ValueError(f"{module} is not of this room")
    fields = note["fields"]
    assert isinstance(fields, dict)
    values = {key: _field(field, saved) for key, field in fields.items()}
    aggregate: Aggregate = getattr(importlib.import_module(module), name)(**values)
    return aggregate


def _field(field: Plain, saved: np.lib.npyio.NpzFile) -> object:
    """One field: an array, or a plain value with its lists as tuples."""
    assert isinstance(field, dict)
    if "array" in field:
        return saved[str(field["array"])]
    return _tuples(field["value"])


def _tuples(value: object) -> object:
    """Lists as tuples."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
