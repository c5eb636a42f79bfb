"""Servers of single-pass models: Triton with TensorRT, ONNX Runtime or FIL, and their commands."""

from __future__ import annotations

import re

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.plan.service import EngineCommand
from gpuyard.workload.eligibility import chip_of

CONFIG = "models/{name}/config.pbtxt"
# Flags and keys: github.com/triton-inference-server (server, core and fil_backend) and NVIDIA
# TensorRT's trtexec, read 2026-11-16.
IMAGE_SHAPE = "3x224x224"  # of the catalog's vision models; PyTorch exports channels first


def single_pass_server(
    model: Model | None,
    machine: Machine,
    batch: int,
    batch_s: float,
    precision: str,
    catalog: Catalog,
    tokens: int = 0,
) -> EngineCommand:
    """Return TensorRT for NVIDIA GPUs, FIL for trees and ONNX Runtime otherwise, behind Triton.

    `tokens` is the length of one input of an encoder.
    """
    name = repository_name(model)
    chip = chip_of(machine, catalog)
    delay_us = max(1, round(0.5 * batch_s * 1e6))
    if model is not None and model.kind == "trees":
        return _engine(
            "triton-fil",
            "Triton, forest inference library",
            _config(name, "fil", batch, delay_us, "KIND_CPU"),
            f"models/{name}/1/xgboost.ubj is the saved model",
        )
    if chip is None:
        return _engine(
            "onnxruntime",
            "ONNX Runtime behind Triton",
            _config(name, "onnxruntime", batch, delay_us, "KIND_CPU"),
            f"models/{name}/1/model.onnx is the exported model; "
            "quantise it with onnxruntime.quantization",
        )
    if chip.vendor != "NVIDIA":
        return _engine(
            "onnxruntime",
            "ONNX Runtime behind Triton",
            _config(name, "onnxruntime", batch, delay_us, "KIND_GPU"),
            f"models/{name}/1/model.onnx is the exported model",
        )
    flag = {"int8": "--int8 --fp16", "fp8": "--fp8 --fp16", "bf16": "--bf16", "fp16": "--fp16"}.get(
        precision, ""
    )
    inputs = _inputs(model, tokens)
    arguments = [
        f"trtexec --onnx={name}.onnx --saveEngine=models/{name}/1/model.plan",
        *([flag] if flag else []),
        *(
            f"--{which}Shapes={','.join(f'{key}:{count}x{shape}' for key, shape in inputs)}"
            for which, count in (("min", 1), ("opt", batch), ("max", batch))
            if inputs
        ),
    ]
    config = _config(name, "tensorrt", batch, delay_us, "KIND_GPU")
    return _engine(
        "tensorrt",
        "TensorRT behind Triton",
        (" ".join(arguments), *config),
        f"{name}.onnx is the exported model, with {_input_text(inputs, batch)}; "
        "int8 needs scales from calibration",
    )


def repository_name(model: Model | None) -> str:
    """The model's name in the repository of Triton: a file name that the shell takes as it is."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", model.name).lstrip("-.") if model else "model"


def _inputs(model: Model | None, tokens: int) -> tuple[tuple[str, str], ...]:
    """Names and shapes of the inputs of an exported model; empty if they are not known."""
    if model is None:
        return ()
    if model.kind == "vision":
        return (("input", IMAGE_SHAPE),)
    if model.kind != "encoder" or not tokens:
        return ()
    names = ["input_ids", "attention_mask"]
    if model.name.startswith("bert"):
        names.append("token_type_ids")  # only BERT has segment embeddings
    return tuple((name, str(tokens)) for name in names)


def _input_text(inputs: tuple[tuple[str, str], ...], batch: int) -> str:
    if not inputs:
        return f"a fixed batch of {batch}"
    names = " and ".join(key for key, _ in inputs)
    return f"inputs named {names} and a dynamic first dimension"


def _engine(name: str, label: str, command: tuple[str, ...], note: str) -> EngineCommand:
    return EngineCommand(name=name, label=label, command=command, note=note)


def _config(name: str, backend: str, batch: int, delay_us: int, kind: str) -> tuple[str, ...]:
    """The Triton model configuration with dynamic batching, and the server."""
    text = (
        f'name: "{name}" backend: "{backend}" max_batch_size: {batch} '
        f"dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }} "
        f"instance_group [ {{ count: 1 kind: {kind} }} ]"
    )
    return (f"echo '{text}' > {CONFIG.format(name=name)}", "tritonserver --model-repository=models")
