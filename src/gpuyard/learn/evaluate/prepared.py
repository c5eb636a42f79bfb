"""Parts of prepared data: its folds, or its training and test split."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets import Arrays, FoldKind, Prepared, folds, load_prepared
from gpuyard.errors import InputError, one_of
from gpuyard.learn.evaluate.parts import Part, keep
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.trainer import Table, Tokens
from gpuyard.learn.training_data import table_from

__all__ = ["PreparedParts", "method_of", "prepared_parts", "problem_of", "split_columns", "split_data"]

TRAIN, TEST = "train", "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedParts:
    """Parts of a folder of prepared data; without folds, the one of its training and test split."""

    folder: str
    version: str
    folds: int
    kind: FoldKind | None
    seed: int
    slices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same parts, in every process."""
        return f"{self.version} {self.folds} {self.kind} {self.seed} {','.join(self.slices)}"

    @property
    def count(self) -> int:
        """How many parts there are."""
        return max(1, self.folds)

    def part(self, number: int) -> Part:
        """One of them; folds are made one after another, so those on the way are kept for the next call."""
        prepared = load_prepared(Path(self.folder))
        if not self.folds:
            train, test = split_data(prepared, TRAIN), split_data(prepared, TEST)
            return Part(train=train, test=test, columns=split_columns(prepared, TEST, self.slices))
        for fold in folds(prepared, count=self.folds, kind=self.kind, seed=self.seed):
            part = Part(
                train=table_from(fold.train, prepared.manifest),
                test=table_from(fold.test, prepared.manifest),
                columns=_array_columns(fold.test, self.slices),
            )
            if fold.number == number:
                return part
            keep(self, fold.number, part)
        raise InputError.one("folds", f"there is no fold {number + 1} of {self.folds}", "write fewer folds")


def prepared_parts(prepared: Prepared, spec: EvaluateSpec) -> PreparedParts:
    """The parts that the section asks for; tokens have no folds and are judged on their test split."""
    manifest = prepared.manifest
    count = 0 if manifest.kind == "tokens" else spec.folds
    if not count and manifest.split(TEST) is None:
        fix = "add split: {test: 0.2} to the data, or evaluate by folds"
        raise InputError.one("evaluate.folds", "there is no test split", fix)
    kind = _kind(prepared) if spec.kind == "auto" else spec.kind
    return PreparedParts(
        folder=str(prepared.folder), version=manifest.version, folds=count, kind=kind, seed=spec.seed,
        slices=spec.slices,
    )  # fmt: skip


def method_of(parts: PreparedParts, problem: str) -> str:
    """How it is judged, in words."""
    if not parts.folds:
        return "hold-out: trained on the training split, judged on the test split"
    kind = parts.kind or ("stratified" if problem == "classification" else "random")
    return f"{parts.folds} folds, {kind}"


def problem_of(prepared: Prepared) -> typing.Literal["classification", "regression", "language"]:
    """What the data asks for."""
    if prepared.manifest.kind == "tokens":
        return "language"
    if prepared.manifest.problem is None:
        raise InputError.one(str(prepared.folder), "the data has no label", "name the label column under data")
    return prepared.manifest.problem


def split_data(prepared: Prepared, split: str) -> Table | Tokens:
    """The rows of a split as trainers take them."""
    if prepared.manifest.kind == "tokens":
        shards = prepared.tokens(split)
        return Tokens(ids=shards, vocab=shards.vocabulary_count, tokenizer=shards.tokenizer)
    return table_from(prepared.arrays(split), prepared.manifest)


def _kind(prepared: Prepared) -> FoldKind | None:
    """By time or by group where the data is split by them; None lets the data room decide."""
    settings = prepared.manifest.lineage.spec.plain()
    split = settings.get("split") if isinstance(settings, dict) else None
    keys = split if isinstance(split, dict) else {}
    return "time" if keys.get("time") else "grouped" if keys.get("group") else None


def _array_columns(arrays: Arrays, names: tuple[str, ...]) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    """Features by name, after the steps."""
    _known(names, arrays.names)
    return tuple((name, np.asarray(arrays.x[:, arrays.names.index(name)])) for name in names)


def split_columns(
    prepared: Prepared, split: str, names: tuple[str, ...]
) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    """Columns of a split by name."""
    if not names:
        return ()
    table = prepared.table(split)
    _known(names, tuple(table.columns))
    return tuple((name, table[name].to_numpy()) for name in names)


def _known(names: tuple[str, ...], there: tuple[str, ...]) -> None:
    """InputError with the columns that are not there."""
    missing = [name for name in names if name not in there]
    if missing:
        fix = f"use {one_of(there, 30)}"
        raise InputError.one("evaluate.slices", f"no column {one_of(missing)} after the steps", fix)
