"""Checks of every key: the task uses it, required keys exist, and numbers are in range."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Problem, choices_text
from gpuyard.units import RATIO
from gpuyard.workload.key_rules import KeyValue, entries, keys_of
from gpuyard.workload.workload import Workload

LEAST_CONFIDENCE = 0.5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_unused(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report keys that the task does not use."""
    unused_section = ""
    for entry in entries(workload):
        if entry.given and workload.task not in entry.key.tasks.used:
            if unused_section and entry.path.startswith(f"{unused_section}."):
                continue
            unused_section = entry.path
            yield Problem(
                where=entry.path,
                what=f"{_with_article(workload.task)} task does not use {entry.key.word}; "
                f"{choices_text(entry.key.tasks.used)} does",
                fix=f"remove it; {workload.task} uses {_siblings(workload, entry)}",
            )


def _siblings(workload: Workload, entry: KeyValue) -> str:
    keys = [key.word for key in keys_of(entry.section) if workload.task in key.tasks.used]
    return choices_text(keys, limit=20).replace(" or ", " and ")


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiouh' else 'a'} {word}"


def check_required(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report missing keys that the task requires."""
    for entry in entries(workload):
        if (
            entry.value is None
            and workload.task in entry.key.tasks.needed
            and not _is_in_pipeline(workload, entry)
        ):
            yield Problem(
                where=entry.path,
                what=f"missing; {_with_article(workload.task)} task requires it",
                fix=f"add {entry.path}: <{_expected(workload, entry)}>",
            )


def _is_in_pipeline(workload: Workload, entry: KeyValue) -> bool:
    """A local run is described by the stages of its pipeline."""
    return (
        workload.where.provider == "local"
        and workload.pipeline is not None
        and "." not in entry.path
    )


def _expected(workload: Workload, entry: KeyValue) -> str:
    field_type = entry.key.type
    if field_type.is_record and entry.key.word != "model":
        return choices_text(
            [key.word for key in keys_of(field_type.base) if workload.task in key.tasks.used]
        )
    return field_type.doc or "a catalog model, a config.json, or a shape"


def check_positive(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report numbers that must be above zero and are not; AtLeast(0) on a key allows zero."""
    for entry in entries(workload):
        value = entry.value
        field_type = entry.key.type
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value < 0 or (value == 0 and field_type.at_least != 0):
            example = (
                f"write it like {field_type.dimension.examples}"
                if field_type.dimension
                else "write a number above zero"
            )
            yield Problem(
                where=entry.path,
                what=f"{value:g} is not above zero",
                fix=f"{example}, or remove the key",
            )


def check_confidence(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a confidence below the nominal prediction, or certainty, which no plan has."""
    confidence = workload.requirements.confidence_ratio
    if not LEAST_CONFIDENCE <= confidence < 1.0:
        yield Problem(
            where="requirements.confidence",
            what=f"{confidence:.0%} is not between 50 % and 100 %",
            fix="write 50% for the nominal prediction, 90% for nine chances in ten, at most 99.9%",
        )


def check_ratios(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report ratios above one."""
    for entry in entries(workload):
        if entry.key.type.dimension is RATIO and isinstance(entry.value, float) and entry.value > 1:
            yield Problem(
                where=entry.path,
                what=f"{entry.value:.4g} is above 1",
                fix=f"write a ratio of at most 1 or 100%; did you mean {entry.value:.4g}%?",
            )


def check_name(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a name that cannot be the name of a job or a folder."""
    if not _NAME.fullmatch(workload.name):
        yield Problem(
            where="name",
            what=f'"{workload.name[:70]}" is not a valid job name',
            fix="use up to 63 letters, digits, dots and dashes, starting with a letter or digit",
        )
