"""Real data sets that ship inside an installed package: `sklearn:NAME`."""

from __future__ import annotations

import importlib

import polars as pl

from gpuyard.errors import InputError, RefusedError, nearest, one_of

__all__ = ["SHIPPED", "shipped"]

SHIPPED = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def shipped(source: str) -> pl.DataFrame:
    """The table of a data set inside scikit-learn, its label in the column `target`."""
    name = source.removeprefix("sklearn:")
    if name not in SHIPPED:
        meant = nearest(name, SHIPPED)
        fix = f'did you mean "sklearn:{meant}"?' if meant else f"use {one_of(SHIPPED)}"
        raise InputError.one(source, "no such data set in scikit-learn", fix)
    try:
        module = importlib.import_module("sklearn.datasets")
    except ImportError:
        raise RefusedError(source, "scikit-learn is not installed", "pip install 'gpuyard[run]'") from None
    bunch = getattr(module, f"load_{name}")()
    names = [str(column).replace(" ", "_").replace("_(cm)", "_cm").replace("/", "_") for column in bunch.feature_names]
    columns = {column: bunch.data[:, at] for at, column in enumerate(names)}
    return pl.DataFrame({**columns, "target": bunch.target})
