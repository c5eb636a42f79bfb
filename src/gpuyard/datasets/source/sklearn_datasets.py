"""Datasets that ship with scikit-learn: `sklearn:NAME`."""

from __future__ import annotations

import importlib

import polars as pl

from gpuyard.errors import InputError, choices_text, closest_match

PREFIX = "sklearn:"
NAMES = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def load_sklearn(source: str) -> pl.DataFrame:
    """Return a dataset of scikit-learn, its label in the column `target`."""
    name = source.removeprefix(PREFIX)
    if name not in NAMES:
        match = closest_match(name, NAMES)
        fix = f'did you mean "{PREFIX}{match}"?' if match else f"use {choices_text(NAMES)}"
        raise InputError.one(source, "no such dataset in scikit-learn", fix)
    module = importlib.import_module("sklearn.datasets")
    bunch = getattr(module, f"load_{name}")()
    names = [
        str(column).replace(" ", "_").replace("_(cm)", "_cm").replace("/", "_")
        for column in bunch.feature_names
    ]
    columns = {column: bunch.data[:, at] for at, column in enumerate(names)}
    return pl.DataFrame({**columns, "target": bunch.target})
