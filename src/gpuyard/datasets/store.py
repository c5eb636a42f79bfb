"""Results of partitions on disk (no pickles), from which a killed run resumes."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from gpuyard.datasets.data_pass import Result
from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.step import Aggregate
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.frozen_json import Plain
from gpuyard.home import write_atomic

_PACKAGE = "gpuyard.datasets."


def save_result(path: Path, result: Result) -> None:
    """Write the result atomically; marks go to separate files, to be memory mapped."""
    arrays: dict[str, np.ndarray] = {}
    records = [
        _record(aggregate, str(at), arrays) for at, aggregate in enumerate(result.aggregates)
    ]
    for at, marks in enumerate(result.marks):
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(marks), allow_pickle=False)
        write_atomic(path.with_suffix(f".{at}.npy"), buffer.getvalue())
    meta: dict[str, object] = {
        "counts": [list(count) for count in result.counts],
        "aggregates": records,
        "marks": len(result.marks),
        "shards": [[split, json.loads(dump_json(shard))] for split, shard in result.shards],
    }
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def _record(aggregate: object, key: str, arrays: dict[str, np.ndarray]) -> dict[str, object]:
    """Return the class and plain fields of an aggregate; its arrays are added to `arrays`."""
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
    return {
        "class": f"{type(aggregate).__module__}:{type(aggregate).__qualname__}",
        "fields": fields,
    }


def load_pass_result(path: Path) -> Result | None:
    """Return a saved result with its marks memory mapped; None if it is missing or broken."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as saved:
            meta = json.loads(saved["meta"].tobytes())
            aggregates = tuple(_aggregate(record, saved) for record in meta["aggregates"])
        marks = tuple(
            np.load(path.with_suffix(f".{at}.npy"), mmap_mode="r") for at in range(meta["marks"])
        )
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    shards = tuple(
        (str(split), load_json(json.dumps(shard), Shard)) for split, shard in meta["shards"]
    )
    counts = tuple(
        (int(step), int(dropped), int(quarantined)) for step, dropped, quarantined in meta["counts"]
    )
    return Result(counts=counts, aggregates=aggregates, marks=marks, shards=shards)


def _aggregate(record: dict[str, Plain], saved: np.lib.npyio.NpzFile) -> Aggregate:
    module, _, name = str(record["class"]).partition(":")
    if not module.startswith(_PACKAGE):
        raise ValueError(f"{module} is not in this package")
    fields = record["fields"]
    assert isinstance(fields, dict)
    values = {key: _value(field, saved) for key, field in fields.items()}
    aggregate: Aggregate = getattr(importlib.import_module(module), name)(**values)
    return aggregate


def _value(field: Plain, saved: np.lib.npyio.NpzFile) -> object:
    assert isinstance(field, dict)
    if "array" in field:
        return saved[str(field["array"])]
    return _tuples(field["value"])


def _tuples(value: object) -> object:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
