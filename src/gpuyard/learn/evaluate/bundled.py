"""What an exported model answers: its bundle run by the ONNX runtime on prepared rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.datasets import Prepared
from gpuyard.errors import InputError, RefusedError
from gpuyard.learn.evaluate.fold import PREDICT_ROWS
from gpuyard.learn.evaluate.predictions import Predictions
from gpuyard.learn.evaluate.prepared import split_data
from gpuyard.learn.trainer import Tokens
from gpuyard.registry import ONNX, read_bundle

__all__ = ["bundle_predictions"]


def bundle_predictions(folder: Path, prepared: Prepared, split: str) -> Predictions:
    """The answers of the bundle in `folder` on a split; InputError unless the rows were prepared as for it."""
    bundle, rows = read_bundle(folder), split_data(prepared, split)
    if isinstance(rows, Tokens) or bundle.kind == "language":
        raise InputError.one(str(folder), "a language model is judged while it is trained", "name no --model")
    ours = prepared.transform.version if prepared.transform is not None else ""
    if bundle.features != rows.names or (bundle.lineage.transform and bundle.lineage.transform != ours):
        what = f"was trained on other columns than {prepared.folder} holds"
        raise InputError.one(str(folder), what, "name the data that it was trained on, or train it again on this")
    if rows.y is None:
        raise InputError.one(str(prepared.folder), "the data has no label", "name the label column under data")
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise RefusedError(
            "evaluate", "the package onnxruntime is not installed", "pip install 'gpuyard[run]'"
        ) from error
    session = onnxruntime.InferenceSession(str(folder / ONNX), providers=["CPUExecutionProvider"])
    wanted = "probabilities" if bundle.kind == "classification" else "value"
    chunks = [
        session.run([wanted], {"x": rows.x[start : start + PREDICT_ROWS]})[0]
        for start in range(0, len(rows.x), PREDICT_ROWS)
    ]
    outputs = np.concatenate(chunks)
    return Predictions(
        problem=rows.problem,
        outputs=outputs if bundle.kind == "classification" else outputs.reshape(-1),
        truth=rows.y,
        classes=rows.classes,
        groups=rows.groups,
    )
