"""Workloads in Python: read a file, or build one from keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.api.keywords import check_type, plain, unknown_keywords
from gpuyard.app.workspace import Workspace, open_workspace, workspace_of
from gpuyard.catalog.load import load_catalog
from gpuyard.document.field_types import Keys, fields_of
from gpuyard.document.frozen_json import Plain
from gpuyard.document.read import read_plain, read_yaml
from gpuyard.home import Home
from gpuyard.workload.workload import WorkloadFile

WorkloadLike = str | Path | Mapping[str, Plain] | Workspace
PathLike = str | Path
TOP_LEVEL = ("name", "model")


def read(
    source: WorkloadLike,
    *,
    catalog: PathLike | Sequence[PathLike] = (),
    home: PathLike | None = None,
) -> Workspace:
    """Read a workload.

    Args:
        source: a workload file, its text, a mapping with its keys, or a workload built here.
        catalog: your own catalog files, over the built-in one.
        home: state directory; default: `.gpuyard` next to the file.

    Raises:
        InputError: with every problem, its place and its fix.
    """
    layers = catalog_files(catalog)
    state = Home(path=Path(home)) if home is not None else None
    if isinstance(source, Workspace):
        rows = load_catalog(layers, source.catalog) if layers else source.catalog
        return replace(source, catalog=rows, home=state or source.home)
    if isinstance(source, Mapping):
        return workspace_of(read_plain(plain(source), "workload"), layers, state)
    if isinstance(source, str) and "\n" in source:
        return workspace_of(read_yaml(source, "workload"), layers, state)
    fix = "give a file, a mapping, or gy.pretraining(...)"
    check_type(source, (str, Path), "workload", "a workload", fix)
    return open_workspace(Path(source), layers, state)


def catalog_files(catalog: PathLike | Sequence[PathLike]) -> tuple[Path, ...]:
    """The catalog files of an argument that may be one path or several."""
    names = (catalog,) if isinstance(catalog, str | Path) else tuple(catalog)
    return tuple(Path(name) for name in names)


def pretraining(model: str | Mapping[str, Plain], **keys: Plain) -> Workspace:
    """Build a pre-training workload: `pretraining("llama-3-70b", tokens="1T", deadline="60d")`."""
    return build("pretraining", {"model": model, **keys})


def finetuning(model: str | Mapping[str, Plain], **keys: Plain) -> Workspace:
    """Build a fine-tuning workload: `finetuning("llama-3-8b", method="lora", lora_rank=16, …)`."""
    return build("finetuning", {"model": model, **keys})


def inference(model: str | Mapping[str, Plain], **keys: Plain) -> Workspace:
    """Build a serving workload: `inference("llama-3-8b", requests="10/s", ttft="200ms", …)`."""
    return build("inference", {"model": model, **keys})


def graphics(**keys: Plain) -> Workspace:
    """Build a graphics workload: `graphics(use="virtual-workstation", sessions=20, …)`."""
    return build("graphics", keys)


def hpc(**keys: Plain) -> Workspace:
    """Build an HPC workload: `hpc(offload="60%", bound="bandwidth", …)`."""
    return build("hpc", keys)


def build(task: str, keys: Mapping[str, object]) -> Workspace:
    """Build a workload from flat keywords, each put into the section of the file that has its key.

    A section can be given whole, as a mapping: `where={"provider": "onprem"}`.
    """
    sections = _sections()
    layers = catalog_files(keys.get("catalog", ()))  # type: ignore[arg-type]
    tree: dict[str, object] = {"task": task}
    for key, value in keys.items():
        if key == "catalog":
            continue
        if key in TOP_LEVEL or key in sections:
            inner = tree.get(key)
            tree[key] = {**inner, **value} if _both(inner, value) else value  # type: ignore[dict-item]
            continue
        section = _section_of(key, task, sections)
        inner = tree.setdefault(section, {})
        assert isinstance(inner, dict)
        inner[key] = value
    return workspace_of(read_plain(plain(tree), "workload"), layers)


def _both(inner: object, value: object) -> bool:
    return isinstance(inner, dict) and isinstance(value, Mapping)


def _sections() -> dict[str, tuple[str, ...]]:
    """Keys of every section of a workload file, by the name of the section."""
    sections = {}
    for field in fields_of(WorkloadFile):
        options = (field.type, *field.type.options)
        record = next((option for option in options if option.is_record), None)
        if record is not None and field.name not in TOP_LEVEL:
            inner = fields_of(record.base)
            sections[field.name] = tuple(item.key(Keys.BARE) for item in inner)
    return sections


def _section_of(key: str, task: str, sections: Mapping[str, tuple[str, ...]]) -> str:
    """The section that has a key; a section named like the task comes first."""
    names = sorted(sections, key=lambda name: name != task)
    section = next((name for name in names if key in sections[name] and name != "pipeline"), None)
    if section is None:
        known = sorted({name for keys in sections.values() for name in keys})
        raise unknown_keywords([key], known, f"{task}()")
    return section
