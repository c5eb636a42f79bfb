"""The `evaluate` section: folds, metrics, slices and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import RATIO

FoldKind: TypeAlias = Literal["auto", "random", "stratified", "grouped", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSpec:
    """Hold-out or cross-validation, metrics, slices and confidence."""

    folds: Annotated[
        int, AtLeast(0), Doc("cross-validation folds; 0: train once, evaluate on the test split")
    ] = 5
    kind: Annotated[
        FoldKind, Doc("auto: by time or group if the data has them, else stratified for classes")
    ] = "auto"
    seed: Annotated[int, AtLeast(0), Doc("seed of the folds and of the bootstrap")] = 0
    metrics: Annotated[
        tuple[str, ...], Doc("metric names; default: the usual ones for the problem type")
    ] = ()
    slices: Annotated[tuple[str, ...], Doc("columns whose values get separate scores")] = ()
    confidence_ratio: Annotated[float, RATIO, Doc("confidence level of the intervals")] = 0.95
    resamples: Annotated[int, AtLeast(0), Doc("bootstrap samples; 0: no intervals")] = 1000
    learning_curve: Annotated[
        tuple[Annotated[float, RATIO], ...],
        Doc("shares of the training rows to train on, such as [25%, 50%, 100%]"),
    ] = ()


def check_evaluate(spec: EvaluateSpec, where: str = "evaluate") -> None:
    """Raise InputError with every problem of the section."""
    problems = list(_problems(spec, where))
    if problems:
        raise InputError(problems)


def _problems(spec: EvaluateSpec, where: str) -> Iterator[Problem]:
    if spec.folds == 1:
        fix = "write 2 or more, or 0 for the test split"
        yield Problem(where=f"{where}.folds", what="one fold leaves no training rows", fix=fix)
    if not 0.5 <= spec.confidence_ratio < 1:
        what = f"{spec.confidence_ratio:g} is not from 50% to below 100%"
        yield Problem(where=f"{where}.confidence", what=what, fix="write 95%")
    for share in spec.learning_curve:
        if not 0 < share <= 1:
            what = f"{share:g} is not above 0 and at most 100%"
            yield Problem(
                where=f"{where}.learning_curve", what=what, fix="write shares such as [25%, 100%]"
            )
