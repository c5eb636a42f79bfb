"""`pipeline.data` section of a workload file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.datasets.data_kind import DataKind
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import BYTES, RATIO

MAX_ZSTD_LEVEL = 22
# The usual ones of the default `na_values` of pandas.read_csv; R writes NA.
NULLS = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSpec:
    """Train, validation and test split, by a hash of row number and seed on every engine alike."""

    test_ratio: Annotated[float, RATIO, Doc("fraction of rows in the test split")] = 0.0
    validation_ratio: Annotated[float, RATIO, Doc("fraction of rows in the validation split")] = 0.0
    stratify: Annotated[bool, Doc("equal fractions of every class of the label")] = False
    group: Annotated[str | None, Doc("a column: rows with equal values stay together")] = None
    time: Annotated[str | None, Doc("a column: the latest rows are the test split")] = None
    seed: Annotated[int, AtLeast(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """How to read the source, where its name does not say."""

    format: Annotated[
        Literal["auto", "parquet", "csv", "tsv", "jsonl", "arrow", "text", "images"],
        Doc("default: from the file name"),
    ] = "auto"
    separator: Annotated[str | None, Doc("CSV: one character")] = None
    header: Annotated[bool, Doc("CSV: the first line holds the column names")] = True
    encoding: Annotated[Literal["utf-8", "latin-1", "utf-16"], Doc("CSV, JSON lines and text")] = (
        "utf-8"
    )
    lines: Annotated[bool, Doc("text: one document per line, not per file")] = False
    nulls: Annotated[tuple[str, ...], Doc("CSV: texts that mean null; [] for none")] = NULLS
    infinite: Annotated[
        Literal["null", "quarantine"], Doc("what to do with infinities and NaN")
    ] = "null"
    contract: Annotated[
        str | None, Doc("a file that pins the columns; written if it does not exist")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """How to write shards."""

    shard_bytes: Annotated[
        float, BYTES, AtLeast(1_000_000), Doc("approximate size before compression")
    ] = 256e6
    precision: Annotated[Literal["float32", "float64"], Doc("dtype of features")] = "float32"
    compression: Annotated[Literal["zstd", "lz4", "snappy", "none"], Doc("Parquet codec")] = "zstd"
    level: Annotated[int, AtLeast(1), Doc("zstd level, at most 22")] = 1
    keep: Annotated[tuple[str, ...], Doc("columns to write; none: all")] = ()


_READ, _SPLIT, _OUTPUT = ReadSpec(), SplitSpec(), OutputSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """Dataset of a model: source, steps, split and output."""

    source: Annotated[
        str,
        Doc(
            "file, folder, glob, gs:// or s3:// address, folder of a Hugging Face dataset, or"
            " sklearn:NAME"
        ),
    ]
    label: Annotated[str | None, Doc("the column to predict")] = None
    problem: Annotated[
        Literal["classification", "regression"] | None, Doc("default: from the label's values")
    ] = None
    id: Annotated[str | None, Doc("a column that identifies the row; not a feature")] = None
    ignore: Annotated[tuple[str, ...], Doc("columns that are not read")] = ()
    read: Annotated[ReadSpec, Doc("how to read the source")] = _READ
    steps: Annotated[tuple[StepSpec, ...], Doc("preparation steps, in order")] = ()
    split: Annotated[SplitSpec, Doc("how to split the rows")] = _SPLIT
    output: Annotated[OutputSpec, Doc("how to write shards")] = _OUTPUT


def data_kind(spec: DataSpec) -> DataKind:
    """Return what the steps write: a table, packed tokens or images."""
    names = [step.named_settings("data.steps")[0] for step in spec.steps]
    if "images" in names:
        return "images"
    return "tokens" if {"tokenise", "conversations", "preferences"} & set(names) else "table"


def resolve_paths(spec: DataSpec, base: Path) -> DataSpec:
    """Return the spec with paths that are relative to `base` made absolute in its steps."""
    return replace(spec, steps=tuple(step.resolve_paths(base) for step in spec.steps))


def check_spec(spec: DataSpec, where: str = "data") -> None:
    """Raise InputError, with every problem, for settings that contradict each other."""
    problems: list[Problem] = []
    split = spec.split

    def add(key: str, what: str, fix: str) -> None:
        problems.append(Problem(where=f"{where}.{key}", what=what, fix=fix))

    if split.test_ratio + split.validation_ratio >= 1:
        add("split", "no rows are left to train on", "make test and validation sum to less than 1")
    if sum((split.stratify, split.group is not None, split.time is not None)) > 1:
        add("split", "stratify, group and time exclude each other", "use one of them")
    if split.stratify and spec.label is None:
        add("split.stratify", "there is no label", "name one under label:")
    if spec.output.level > MAX_ZSTD_LEVEL:
        fix = f"write 1 to {MAX_ZSTD_LEVEL}"
        add("output.level", f"{spec.output.level} is above {MAX_ZSTD_LEVEL}", fix)
    if spec.read.separator is not None and len(spec.read.separator.encode()) != 1:
        add("read.separator", "is not one character", 'write "," or ";"')
    for number, step in enumerate(spec.steps):
        try:
            step.named_settings(f"{where}.steps[{number}]")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
