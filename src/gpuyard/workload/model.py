"""The model of a workload: a catalog row, a Hugging Face config, or a shape written in the file."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model, Transformer
from gpuyard.errors import InputError, Problem, closest_match
from gpuyard.units import COUNT, show

CUSTOM = "custom"
ModelReader = Callable[[str], Model]  # from a path relative to the workload file


def find_model(
    written: str | Transformer | None, catalog: Catalog, read: ModelReader
) -> Model | Problem | None:
    """Return the model, the problem with its name, or None if the file names no model."""
    if written is None:
        return None
    if isinstance(written, Transformer):
        return _model_of_shape(written)
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
        return Problem(where="model", what=f"{first.where}: {first.what}{rest}", fix=first.fix)


def no_files(written: str) -> Model:
    """Reject a model path when the workload is not read from a file."""
    raise InputError.one(
        written,
        "a model path needs a workload file to be relative to",
        "save the workload to a file first",
    )


def _is_path(written: str) -> bool:
    """Not true for `meta-llama/Llama-3.1-8B`, which is a name on a model hub."""
    return written.startswith(("./", "../", "/", "~/")) or written.endswith(".json")


def _unknown(written: str, catalog: Catalog) -> Problem:
    """Suggest a row for a typo; a name with other numbers is another model, and is called so."""
    names = {name: row for row in catalog.models for name in (row.name, *row.aliases)}
    short = written.rpartition("/")[2]
    meant = names.get(closest_match(written, names) or closest_match(short, names) or "")
    own = "give its config.json as ./config.json"
    if meant is None:
        suggestion = f"{own}; rows are in `gpuyard catalog models`"
    elif any(_numbers(short) == _numbers(name) for name in (meant.name, *meant.aliases)):
        suggestion = f'use "{meant.name}", or {own}'
    else:
        size = show(meant.parameters_count, COUNT)
        suggestion = f"{own} (the nearest row, {meant.name} of {size}, is another model)"
    fix = f"{suggestion}, or describe it under model: (layers, hidden, heads, ffn, vocab)"
    return Problem(where="model", what=f'no model named "{written}"', fix=fix)


def _numbers(name: str) -> list[str]:
    """Versions and sizes in a name: 3.5, 397, 17 of qwen3.5-397b-a17b."""
    return re.findall(r"\d+(?:\.\d+)?", name)


def _model_of_shape(shape: Transformer) -> Model:
    active = shape.active_parameters() if shape.moe else None
    return Model(
        name=CUSTOM,
        label="custom",
        kind="encoder-decoder" if shape.encoder else "decoder",
        parameters_count=float(shape.parameters()),
        active_parameters_count=None if active is None else float(active),
        source=("workload",),
        transformer=shape,
    )
