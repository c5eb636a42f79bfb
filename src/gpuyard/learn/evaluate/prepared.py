"""Evaluation splits of prepared data: its folds, or its train and test split."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.folds import FoldKind, folds
from gpuyard.datasets.prepared import Arrays, PreparedDataset, load_prepared
from gpuyard.errors import InputError, choices_text
from gpuyard.learn.evaluate.spec import EvaluateSpec
from gpuyard.learn.evaluate.splits import TrainTestSplit, cache_split
from gpuyard.learn.training_data import VALIDATION, split_data, table_from, validation_data

TRAIN, TEST = "train", "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSplits:
    """Splits of a prepared folder; without folds, its train and test split."""

    folder: str
    version: str
    folds: int
    kind: FoldKind | None
    seed: int
    slices: tuple[str, ...] = ()
    judge: str = "test"  # split that is predicted if there are no folds

    @property
    def key(self) -> str:
        """Identifies the splits, in every process."""
        cut = f"{self.folds} {self.kind} {self.seed} {self.judge}"
        return f"{self.version} {cut} {','.join(self.slices)}"

    @property
    def count(self) -> int:
        return max(1, self.folds)

    @property
    def prepared(self) -> Path:
        return Path(self.folder)

    def part(self, number: int) -> TrainTestSplit:
        """Return one split; folds are cut in order, so earlier ones are cached."""
        prepared = load_prepared(Path(self.folder))
        if not self.folds:
            return TrainTestSplit(
                train=split_data(prepared, TRAIN),
                test=split_data(prepared, self.judge),
                validation=validation_data(prepared),
                columns=split_columns(prepared, self.judge, self.slices),
            )
        for fold in folds(prepared, count=self.folds, kind=self.kind, seed=self.seed):
            split = TrainTestSplit(
                train=table_from(fold.train, prepared.manifest),
                test=table_from(fold.test, prepared.manifest),
                columns=_array_columns(fold.test, self.slices),
            )
            if fold.number == number:
                return split
            cache_split(self, fold.number, split)
        raise InputError.one(
            "folds", f"there is no fold {number + 1} of {self.folds}", "use fewer folds"
        )


def prepared_splits(prepared: PreparedDataset, spec: EvaluateSpec) -> PreparedSplits:
    """Return the requested splits; tokens and images are evaluated on their test split."""
    manifest = prepared.manifest
    count = spec.folds if manifest.kind == "table" else 0
    if not count and manifest.split(TEST) is None:
        fix = "add split: {test: 0.2} to the data, or evaluate by folds"
        raise InputError.one("evaluate.folds", "there is no test split", fix)
    kind = _kind(prepared) if spec.kind == "auto" else spec.kind
    return PreparedSplits(
        folder=str(prepared.folder),
        version=manifest.version,
        folds=count,
        kind=kind,
        seed=spec.seed,
        slices=spec.slices,
    )


def search_splits(prepared: PreparedDataset, spec: EvaluateSpec) -> PreparedSplits:
    """Return the splits of a search: folds, or the validation split of tokens and images.

    The test split stays unseen, so that the chosen model can be judged on it.
    """
    if prepared.manifest.kind == "table":
        return prepared_splits(prepared, spec)
    if prepared.manifest.split(VALIDATION) is None:
        fix = "add split: {validation: 10%} to the data"
        raise InputError.one("select", "there is no validation split to choose by", fix)
    return PreparedSplits(
        folder=str(prepared.folder),
        version=prepared.manifest.version,
        folds=0,
        kind=None,
        seed=spec.seed,
        judge=VALIDATION,
    )


def method_of(splits: PreparedSplits, problem: str) -> str:
    """Describe the evaluation method in words."""
    if not splits.folds:
        return "hold-out: trained on the train split, evaluated on the test split"
    kind = splits.kind or ("stratified" if problem == "classification" else "random")
    return f"{splits.folds} folds, {kind}"


def problem_of(
    prepared: PreparedDataset,
) -> typing.Literal["classification", "regression", "language"]:
    """Return the problem type of the data."""
    if prepared.manifest.kind == "tokens":
        return "language"
    if prepared.manifest.problem is None:
        raise InputError.one(
            str(prepared.folder), "the data has no label", "set the label column under data"
        )
    return prepared.manifest.problem


def _kind(prepared: PreparedDataset) -> FoldKind | None:
    # By time or group if the data was split that way; None: decided by datasets.folds.
    settings = prepared.manifest.lineage.spec.plain()
    split = settings.get("split") if isinstance(settings, dict) else None
    keys = split if isinstance(split, dict) else {}
    return "time" if keys.get("time") else "grouped" if keys.get("group") else None


def _array_columns(
    arrays: Arrays, names: tuple[str, ...]
) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    _check_columns(names, arrays.names)
    return tuple((name, np.asarray(arrays.x[:, arrays.names.index(name)])) for name in names)


def split_columns(
    prepared: PreparedDataset, split: str, names: tuple[str, ...]
) -> tuple[tuple[str, npt.NDArray[typing.Any]], ...]:
    """Return columns of a split by name."""
    if not names:
        return ()
    table = prepared.table(split)
    _check_columns(names, tuple(table.columns))
    return tuple((name, table[name].to_numpy()) for name in names)


def _check_columns(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        fix = f"use {choices_text(known, 30)}"
        raise InputError.one(
            "evaluate.slices", f"no column {choices_text(missing)} after the steps", fix
        )
