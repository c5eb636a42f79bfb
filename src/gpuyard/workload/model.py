"""The model that a workload names: a row of the catalog, a Hugging Face config, or a shape written out."""

from __future__ import annotations

from collections.abc import Callable

from gpuyard.catalog import Catalog, Model, Transformer
from gpuyard.errors import InputError, nearest
from gpuyard.workload.finding import Finding

__all__ = ["CUSTOM", "ModelReader", "find_model", "no_files"]

CUSTOM = "custom"
ModelReader = Callable[[str], Model]  # from a path as written, beside the workload file


def find_model(written: str | Transformer | None, catalog: Catalog, read: ModelReader) -> Model | Finding | None:
    """The model, or what is wrong with its name; None where the file names none."""
    if written is None:
        return None
    if isinstance(written, Transformer):
        return _of_shape(written)
    wanted = written.casefold()
    for row in catalog.models:
        if wanted in (name.casefold() for name in (row.name, *row.aliases)):
            return row
    if not _is_path(written):
        return _unknown(written, catalog)
    try:
        return read(written)
    except InputError as error:
        first, *more = error.problems
        rest = f" (and {len(more)} more)" if more else ""
        return Finding(path="model", what=f"{first.where}: {first.what}{rest}", fix=first.fix)


def no_files(written: str) -> Model:
    """Refuses a path, where there is no file to be beside."""
    raise InputError.one(written, "a path can only be read beside a workload file", "save the workload to a file first")


def _is_path(written: str) -> bool:
    """True of what can only be a path; `meta-llama/Llama-3.1-8B` is a name on a hub."""
    return written.startswith(("./", "../", "/", "~/")) or written.endswith(".json")


def _unknown(written: str, catalog: Catalog) -> Finding:
    """A name that the catalog does not have."""
    names = {name: row.name for row in catalog.models for name in (row.name, *row.aliases)}
    meant = names.get(nearest(written, names) or nearest(written.rpartition("/")[2], names) or "")
    described = "describe it under model: (layers, hidden, heads, ffn, vocab)"
    fix = f'use "{meant}", or {described}' if meant else f"`gpuyard catalog models` lists them; or {described}"
    if "/" in written:
        fix += ", or give its config.json as ./config.json"
    return Finding(path="model", what=f'no model named "{written}"', fix=fix)


def _of_shape(shape: Transformer) -> Model:
    """A model of that shape; its size is counted from it."""
    active = shape.active_parameters() if shape.moe else None
    return Model(
        name=CUSTOM,
        label="custom",
        kind="decoder",
        parameters_count=float(shape.parameters()),
        active_parameters_count=None if active is None else float(active),
        source=("workload",),
        transformer=shape,
    )
