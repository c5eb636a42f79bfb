"""`gpuyard data`: prepare data as a file declares, show what a folder holds, tell two of them apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gpuyard.datasets import (
    Column,
    DataSpec,
    Engine,
    LocalEngine,
    Prepared,
    Progress,
    RayEngine,
    load_prepared,
    prepare,
)
from gpuyard.datasets.compare import Shown
from gpuyard.datasets.prepare import MEMORY_BYTES
from gpuyard.datasets.source.files import find_files
from gpuyard.datasets.source.open import open_source
from gpuyard.datasets.spec import ReadSpec
from gpuyard.document import Keys, Mapping, decode, read_file
from gpuyard.errors import InputError

__all__ = ["EngineName", "data_folder", "read_data", "run_data", "show_data"]

EngineName = Literal["local", "ray"]
_PIPELINES = (".yaml", ".yml", ".toml")


def read_data(path: Path, section: str = "data") -> DataSpec:
    """The data section of a workload file, or of a file that holds it alone; a file or folder of data is its source."""
    if path.is_dir() and (files := sorted(file for file in path.iterdir() if file.suffix in _PIPELINES)):
        raise InputError.one(str(path), "is a folder with a workload file, not data", f"name the file: {files[0]}")
    if path.suffix not in _PIPELINES:
        return DataSpec(source=str(path.resolve()))
    root = read_file(path).root
    if isinstance(root, Mapping):
        pipeline = root.get("pipeline")
        inner = pipeline.get(section) if isinstance(pipeline, Mapping) else root.get(section)
        if isinstance(pipeline, Mapping) and inner is None:
            raise InputError.one(str(path), "has no pipeline.data section", "add one: see docs/guides/data.md")
        root = inner if isinstance(inner, Mapping) and root.get("source") is None else root
    return decode(root, DataSpec, Keys.BARE)


def data_folder(path: Path) -> Path:
    """Where a file's prepared data goes unless another folder is named."""
    return path.resolve().parent / ".gpuyard" / "data" / path.stem


def run_data(
    path: Path, *, out: Path | None = None, engine: EngineName = "local", address: str | None = None,
    memory_bytes: float = MEMORY_BYTES, progress: Callable[[Progress], None] = lambda _: None,
) -> Prepared:  # fmt: skip
    """Prepares the data that a file declares."""
    if (path / "manifest.json").is_file():
        fix = f"`gpuyard data show {path}` shows it; to prepare it anew, name the workload file or the source"
        raise InputError.one(str(path), "holds data that was prepared already", fix)
    runner: Engine = RayEngine(address=address) if engine == "ray" else LocalEngine()
    return prepare(
        read_data(path), base=path.resolve().parent, out=out or data_folder(path), engine=runner,
        memory_bytes=memory_bytes, progress=progress,
    )  # fmt: skip


def show_data(path: Path, work: Path) -> Shown:
    """What a folder of prepared data holds, or a pipeline's or a file's source; text formats are staged in `work`."""
    if (path / "manifest.json").is_file():
        manifest = load_prepared(path).manifest
        return Shown(path=str(path), columns=manifest.schema, rows=manifest.rows_out, manifest=manifest)
    spec = read_data(path)
    if path.is_dir():
        find_files(str(path), ReadSpec(), path.parent)
    source = open_source(spec, base=path.resolve().parent, work=work, partition_bytes=64e6)
    columns = tuple(Column(name=name, dtype=str(dtype)) for name, dtype in source.schema.items())
    return Shown(path=spec.source, columns=columns, rows=source.rows + source.quarantined)
