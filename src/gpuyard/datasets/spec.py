"""What the `pipeline.data` section of a workload file says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.datasets.steps import Step
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import BYTES, RATIO

__all__ = ["DataSpec", "OutputSpec", "ReadSpec", "SplitSpec", "check_spec", "located"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSpec:
    """How rows are shared out; every row goes by a hash of its number and the seed, so engines agree."""

    test_ratio: Annotated[float, RATIO, Doc("part of the rows for the last test")] = 0.0
    validation_ratio: Annotated[float, RATIO, Doc("part of the rows for validation")] = 0.0
    stratify: Annotated[bool, Doc("the same parts of every class of the label")] = False
    group: Annotated[str | None, Doc("a column: rows with the same value stay together")] = None
    time: Annotated[str | None, Doc("a column: the latest rows are the test")] = None
    seed: Annotated[int, AtLeast(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """How the source is read, where its name does not tell."""

    format: Annotated[
        Literal["auto", "parquet", "csv", "tsv", "jsonl", "arrow", "text", "images"], Doc("by default from the name")
    ] = "auto"
    separator: Annotated[str | None, Doc("of CSV: one character")] = None
    header: Annotated[bool, Doc("of CSV: the first line names the columns")] = True
    encoding: Annotated[Literal["utf-8", "latin-1", "utf-16"], Doc("of CSV, JSON lines and text")] = "utf-8"
    lines: Annotated[bool, Doc("of text: one document a line, not a file")] = False
    nulls: Annotated[tuple[str, ...], Doc("of CSV: texts that mean null")] = ("",)
    infinite: Annotated[Literal["null", "quarantine"], Doc("what becomes of rows with infinities and NaN")] = "null"
    contract: Annotated[str | None, Doc("a file with the columns that are allowed; written if it is not there")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """How shards are written."""

    shard_bytes: Annotated[float, BYTES, AtLeast(1_000_000), Doc("of a shard before compression, about")] = 256e6
    precision: Annotated[Literal["float32", "float64"], Doc("of features")] = "float32"
    compression: Annotated[Literal["zstd", "lz4", "snappy", "none"], Doc("of shards")] = "zstd"
    level: Annotated[int, AtLeast(1), Doc("of zstd, at most 22")] = 1
    keep: Annotated[tuple[str, ...], Doc("the columns to write; none: all")] = ()


_READ, _SPLIT, _OUTPUT = ReadSpec(), SplitSpec(), OutputSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """The data that a model learns from: where it is, what is done to it, how it is shared out."""

    source: Annotated[str, Doc("a file, folder, glob, gs:// or s3:// address, or sklearn:NAME")]
    label: Annotated[str | None, Doc("the column to predict")] = None
    problem: Annotated[Literal["classification", "regression"] | None, Doc("by default from the label's values")] = None
    id: Annotated[str | None, Doc("a column that names the row; not a feature")] = None
    ignore: Annotated[tuple[str, ...], Doc("columns that are not read")] = ()
    read: Annotated[ReadSpec, Doc("how the source is read")] = _READ
    steps: Annotated[tuple[Step, ...], Doc("what is done to it, in order")] = ()
    split: Annotated[SplitSpec, Doc("how rows are shared out")] = _SPLIT
    output: Annotated[OutputSpec, Doc("how shards are written")] = _OUTPUT


def located(spec: DataSpec, base: Path) -> DataSpec:
    """The spec with the files that its steps name spelt out; relative ones start from `base`."""
    return replace(spec, steps=tuple(step.at(base) for step in spec.steps))


def check_spec(spec: DataSpec, where: str = "data") -> None:
    """Refuses, with every problem, settings that contradict each other."""
    problems: list[Problem] = []
    split = spec.split

    def wrong(key: str, what: str, fix: str) -> None:
        """Notes a problem."""
        problems.append(Problem(where=f"{where}.{key}", what=what, fix=fix))

    if split.test_ratio + split.validation_ratio >= 1:
        wrong("split", "nothing is left to train on", "make test and validation add up to less than 1")
    if sum((split.stratify, split.group is not None, split.time is not None)) > 1:
        wrong("split", "stratify, group and time exclude each other", "keep one of them")
    if split.stratify and spec.label is None:
        wrong("split.stratify", "there is no label", "name one under label:")
    if spec.output.level > 22:
        wrong("output.level", f"{spec.output.level} is above 22", "write 1 to 22")
    if spec.read.separator is not None and len(spec.read.separator.encode()) != 1:
        wrong("read.separator", "is not one character", 'write "," or ";"')
    for number, step in enumerate(spec.steps):
        try:
            step.chosen(f"{where}.steps[{number}]")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
