"""`gpuyard data`: prepare, show and diff datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gpuyard.datasets.columns import Column
from gpuyard.datasets.compare import DatasetSummary
from gpuyard.datasets.engines.data_engine import DataEngine
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.engines.ray import RayDataEngine
from gpuyard.datasets.passes import PassProgress
from gpuyard.datasets.prepare import MEMORY_BYTES, prepare
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.datasets.source.files import find_files
from gpuyard.datasets.source.open import open_source
from gpuyard.datasets.spec import DataSpec, ReadSpec
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.document.tree import Mapping
from gpuyard.errors import InputError

EngineName = Literal["local", "ray"]
_PIPELINES = (".yaml", ".yml", ".toml")


def read_data(path: Path, section: str = "data") -> DataSpec:
    """Read the data section of a file; a data file or folder is its own source."""
    if path.is_dir() and (
        files := sorted(file for file in path.iterdir() if file.suffix in _PIPELINES)
    ):
        raise InputError.one(
            str(path), "is a folder with a workload file, not data", f"name the file: {files[0]}"
        )
    if path.suffix not in _PIPELINES:
        return DataSpec(source=str(path.resolve()))
    root = read_file(path).root
    if isinstance(root, Mapping):
        pipeline = root.get("pipeline")
        inner = pipeline.get(section) if isinstance(pipeline, Mapping) else root.get(section)
        if isinstance(pipeline, Mapping) and inner is None:
            raise InputError.one(
                str(path), "has no pipeline.data section", "add one: see docs/guides/data.md"
            )
        root = inner if isinstance(inner, Mapping) and root.get("source") is None else root
    return decode(root, DataSpec, Keys.BARE)


def data_folder(path: Path) -> Path:
    """Default folder of a file's prepared data."""
    return path.resolve().parent / ".gpuyard" / "data" / path.stem


def run_data(
    path: Path,
    *,
    out: Path | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    memory_bytes: float = MEMORY_BYTES,
    progress: Callable[[PassProgress], None] = lambda _: None,
) -> PreparedDataset:
    """Prepare the data that a file declares."""
    if (path / "manifest.json").is_file():
        fix = f"show it with `gpuyard data show {path}`, or name the workload file or the source"
        raise InputError.one(str(path), "holds data that is already prepared", fix)
    runner: DataEngine = RayDataEngine(address=address) if engine == "ray" else LocalDataEngine()
    return prepare(
        read_data(path),
        base=path.resolve().parent,
        out=out or data_folder(path),
        engine=runner,
        memory_bytes=memory_bytes,
        on_progress=progress,
    )


def show_data(path: Path, work: Path) -> DatasetSummary:
    """Summarise prepared data, or the source of a file; text formats are staged in `work`."""
    if (path / "manifest.json").is_file():
        manifest = load_prepared(path).manifest
        return DatasetSummary(
            path=str(path), columns=manifest.schema, rows=manifest.rows_out, manifest=manifest
        )
    spec = read_data(path)
    if path.is_dir():
        find_files(str(path), ReadSpec(), path.parent)
    source = open_source(spec, base=path.resolve().parent, work=work, partition_bytes=64e6)
    columns = tuple(Column(name=name, dtype=str(dtype)) for name, dtype in source.schema.items())
    return DatasetSummary(path=spec.source, columns=columns, rows=source.rows + source.quarantined)
