"""Import an ONNX file of any signature as a bundle, with code of its author around it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuyard.app.registry import OnnxImport
from gpuyard.datasets.user_code import load_module
from gpuyard.document.read import read_text
from gpuyard.errors import ExternalError, InputError, choices_text
from gpuyard.registry.bundle import (
    ONNX,
    PROCESSING,
    ModelBundle,
    ModelLineage,
    Processing,
    Tensor,
    write_bundle,
)
from gpuyard.serving.onnx_model import LoadedModel, open_session, tensor_of
from gpuyard.serving.processed_model import MAX_CODE_BYTES, ProcessedModel

DTYPES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool", "str",
)  # fmt: skip


def write_onnx_bundle(folder: Path, source: Path, options: OnnxImport) -> ModelBundle:
    """Write a bundle around an ONNX file. Raise InputError if it could not be served."""
    if not source.is_file():
        raise InputError.one(str(source), "no such file", "check the path")
    try:
        shutil.copyfile(source, folder / ONNX)
        if options.code is not None:
            code = read_text(options.code, MAX_CODE_BYTES)
            (folder / PROCESSING).write_text(code, encoding="utf-8")
    except OSError as error:
        what = f"cannot be copied: {error.strerror}"
        raise ExternalError(str(source), what, "check the disk and the permissions") from error
    session = open_session(folder / ONNX)
    inputs = tuple(tensor_of(item) for item in session.get_inputs())
    outputs = tuple(tensor_of(item) for item in session.get_outputs())
    processing = None
    if options.code is None:
        model = LoadedModel(folder / ONNX, [item.name for item in outputs])
        dtypes = {item.name: item.dtype for item in outputs}
        outputs = tuple(
            Tensor(name=item.name, dtype=dtypes[item.name], shape=(-1, *item.tail))
            for item in model.outputs
        )
        inputs = tuple(
            Tensor(name=item.name, dtype=item.dtype, shape=(-1, *item.tail))
            for item in model.inputs
        )
    else:
        processing = Processing(model_outputs=tuple(item.name for item in outputs))
        module = load_module(code, PROCESSING)
        where = str(options.code)
        inputs = _declared(getattr(module, "INPUTS", None), f"{where}: INPUTS") or inputs
        outputs = _declared(getattr(module, "OUTPUTS", None), f"{where}: OUTPUTS") or outputs
    bundle = ModelBundle(
        kind="classification" if options.classes else "regression",
        trainer="onnx",
        framework="onnx",
        inputs=inputs,
        outputs=outputs,
        classes=options.classes,
        processing=processing,
        lineage=ModelLineage(parent=source.name),
    )
    if processing is not None:
        ProcessedModel(folder, bundle)  # refuses shapes that it cannot serve
    return write_bundle(folder, bundle)


def _declared(declared: Any, where: str) -> tuple[Tensor, ...]:
    """Return the tensors of `{"name": ("float32", [8, 8])}`: type, and shape of one row."""
    fix = 'write {"NAME": ("float32", [8, 8])}: the type, and the shape of one row'
    if declared is None:
        return ()
    if not isinstance(declared, Mapping) or not declared:
        raise InputError.one(where, "is not a mapping", fix)
    tensors = []
    for name, pair in declared.items():
        try:
            dtype, shape = pair
            row = tuple(int(size) for size in shape)
        except (TypeError, ValueError):
            raise InputError.one(f"{where}: {name}", "is not a type and a shape", fix) from None
        if not isinstance(dtype, str) or dtype not in DTYPES:
            what = f"{dtype!r} is not a type"
            raise InputError.one(f"{where}: {name}", what, f"use {choices_text(DTYPES, 20)}")
        tensors.append(Tensor(name=str(name), dtype=dtype, shape=(-1, *row)))
    return tuple(tensors)
