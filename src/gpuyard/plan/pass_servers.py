"""Servers for models that answer in one pass: Triton with TensorRT, ONNX Runtime or trees, and how to start them."""

from __future__ import annotations

from gpuyard.catalog import Catalog, Machine, Model
from gpuyard.plan.eligible import chip_of
from gpuyard.plan.service import Engine

__all__ = ["pass_server"]

CONFIG = "models/{name}/config.pbtxt"
# Flags and keys: github.com/triton-inference-server (server, core and fil_backend), NVIDIA TensorRT's trtexec,
# read 2026-11-16.


def pass_server(
    model: Model | None, machine: Machine, batch: int, batch_s: float, precision: str, catalog: Catalog
) -> Engine:
    """TensorRT on NVIDIA's GPUs, ONNX Runtime elsewhere, the forest library for trees; Triton before each."""
    name = model.name if model else "model"
    chip = chip_of(machine, catalog)
    delay_us = max(1, round(0.5 * batch_s * 1e6))
    if model is not None and model.kind == "trees":
        return _engine(
            "triton-fil", "Triton, forest inference library", _config(name, "fil", batch, delay_us, "KIND_CPU"),
            f"models/{name}/1/xgboost.ubj is the saved model",
        )  # fmt: skip
    if chip is None:
        return _engine(
            "onnxruntime", "ONNX Runtime behind Triton", _config(name, "onnxruntime", batch, delay_us, "KIND_CPU"),
            f"models/{name}/1/model.onnx is the exported model; quantise it with onnxruntime.quantization",
        )  # fmt: skip
    if chip.vendor != "NVIDIA":
        return _engine(
            "onnxruntime", "ONNX Runtime behind Triton", _config(name, "onnxruntime", batch, delay_us, "KIND_GPU"),
            f"models/{name}/1/model.onnx is the exported model",
        )  # fmt: skip
    flag = {"int8": "--int8 --fp16", "fp8": "--fp8 --fp16", "bf16": "--bf16", "fp16": "--fp16"}.get(precision, "")
    shape = f"--minShapes=input:1x$SHAPE --optShapes=input:{batch}x$SHAPE --maxShapes=input:{batch}x$SHAPE"
    build = f"trtexec --onnx={name}.onnx --saveEngine=models/{name}/1/model.plan {flag} {shape}".replace("  ", " ")
    config = _config(name, "tensorrt", batch, delay_us, "KIND_GPU")
    return _engine(
        "tensorrt", "TensorRT behind Triton", (build, *config),
        f"{name}.onnx is the exported model, $SHAPE one input such as 3x224x224; int8 needs scales from calibration",
    )  # fmt: skip


def _engine(name: str, label: str, command: tuple[str, ...], note: str) -> Engine:
    """The engine."""
    return Engine(name=name, label=label, command=command, note=note)


def _config(name: str, backend: str, batch: int, delay_us: int, kind: str) -> tuple[str, ...]:
    """The model's configuration with dynamic batching, and the server."""
    text = (
        f'name: "{name}" backend: "{backend}" max_batch_size: {batch} '
        f"dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }} "
        f"instance_group [ {{ count: 1 kind: {kind} }} ]"
    )
    return (f"echo '{text}' > {CONFIG.format(name=name)}", "tritonserver --model-repository=models")
