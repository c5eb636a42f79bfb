"""What every key obeys: the task uses it, the task has what it needs, and its number makes sense."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog import Catalog
from gpuyard.errors import one_of
from gpuyard.units import RATIO
from gpuyard.workload.finding import Finding
from gpuyard.workload.keys import Entry, entries, keys_of
from gpuyard.workload.workload import Workload

__all__ = ["is_called_plainly", "is_needed_by_the_task", "is_number_above_zero", "is_share", "is_used_by_the_task"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def is_used_by_the_task(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Keys that mean nothing to this task."""
    unused_section = ""
    for entry in entries(workload):
        if entry.given and workload.task not in entry.key.tasks.used:
            if unused_section and entry.path.startswith(f"{unused_section}."):
                continue
            unused_section = entry.path
            yield Finding(
                path=entry.path,
                what=f"{_with_article(workload.task)} task does not use {entry.key.word}; "
                f"{one_of(entry.key.tasks.used)} does",
                fix=f"remove it; {workload.task} uses {_siblings(workload, entry)}",
            )


def _siblings(workload: Workload, entry: Entry) -> str:
    """The keys beside this one that the task does use."""
    words = [key.word for key in keys_of(entry.section) if workload.task in key.tasks.used]
    return one_of(words, limit=20).replace(" or ", " and ")


def _with_article(word: str) -> str:
    """`a graphics`, `an inference`."""
    return f"{'an' if word[0] in 'aeiouh' else 'a'} {word}"


def is_needed_by_the_task(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Keys that this task cannot do without."""
    for entry in entries(workload):
        if entry.value is None and workload.task in entry.key.tasks.needed and not _is_in_the_pipeline(workload, entry):
            yield Finding(
                path=entry.path,
                what=f"missing, and {_with_article(workload.task)} task needs it",
                fix=f"add {entry.path}: <{_wanted(workload, entry)}>",
            )


def _is_in_the_pipeline(workload: Workload, entry: Entry) -> bool:
    """True of what the stages say themselves: what runs on this machine is described by its pipeline."""
    return workload.where.provider == "local" and workload.pipeline is not None and "." not in entry.path


def _wanted(workload: Workload, entry: Entry) -> str:
    """What to write there: the keys of a section, or what the key means."""
    shape = entry.key.shape
    if shape.is_record and entry.key.word != "model":
        return one_of([key.word for key in keys_of(shape.base) if workload.task in key.tasks.used])
    return shape.doc or "a model of the catalog, a config.json, or a shape"


def is_number_above_zero(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Numbers that are zero or less where that leaves nothing to do; AtLeast(0) on a key allows zero."""
    for entry in entries(workload):
        value, shape = entry.value, entry.key.shape
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value < 0 or (value == 0 and shape.at_least != 0):
            how = f"write it like {shape.dimension.examples}" if shape.dimension else "write a number above zero"
            yield Finding(path=entry.path, what=f"{value:g} is not above zero", fix=f"{how}, or remove the key")


def is_share(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Shares above the whole."""
    for entry in entries(workload):
        if entry.key.shape.dimension is RATIO and isinstance(entry.value, float) and entry.value > 1:
            yield Finding(
                path=entry.path,
                what=f"{entry.value:.4g} is more than the whole",
                fix=f"write a share up to 1 or 100%; did you mean {entry.value:.4g}%?",
            )


def is_called_plainly(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """A name that could not name a job or a folder."""
    if not _NAME.fullmatch(workload.name):
        yield Finding(
            path="name",
            what=f'"{workload.name[:70]}" cannot name a job',
            fix="use up to 63 letters, digits, dots and dashes, a letter or digit first",
        )
