"""Launch of a single-pass model behind Triton Inference Server: repository, engine, server."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.plan.service import EngineCommand
from gpuyard.plan.single_pass_servers import repository_name
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import BucketMount, EnvVar
from gpuyard.provision.platform import DeployStep

MODELS = "/mnt/models"
FOLDER = "models"  # in the bucket
MODEL_DIR = "MODEL_DIR"
# The exported model, by engine, and its name in Triton's model repository
# (github.com/triton-inference-server/server, docs/user_guide/model_repository.md, 2026-08-23).
# TensorRT builds its engine from the export, on the GPU that will run it.
EXPORTS = {
    "tensorrt": ("model.onnx", ""),
    "onnxruntime": ("model.onnx", "model.onnx"),
    "triton-fil": ("xgboost.ubj", "xgboost.ubj"),
}
TRTEXEC_FOLDER = "/usr/src/tensorrt/bin"  # in the Triton image


def is_triton(engine: EngineCommand) -> bool:
    """Return whether Triton serves the model."""
    return engine.name in EXPORTS


def exported_file(blueprint: Blueprint, engine: EngineCommand) -> str:
    """Return the name of the exported model in the folder of models."""
    suffix = EXPORTS[engine.name][0].partition(".")[2]
    return f"{_model_name(blueprint)}.{suffix}"


def triton_lines(blueprint: Blueprint, engine: EngineCommand, flags: str) -> Iterator[str]:
    """Yield the shell lines that make the model repository and start the server."""
    name = _model_name(blueprint)
    export = f'"${MODEL_DIR}/{exported_file(blueprint, engine)}"'
    repository_file = EXPORTS[engine.name][1]
    *before, server = engine.command
    missing = f"{exported_file(blueprint, engine)} is missing in ${MODEL_DIR}"
    yield f'[ -r {export} ] || {{ echo "{missing}" >&2; exit 1; }}'
    yield f'export PATH="$PATH:{TRTEXEC_FOLDER}"'
    yield 'cd "$(mktemp -d)"'
    yield f"mkdir -p models/{name}/1"
    if repository_file:
        yield f"cp {export} models/{name}/1/{repository_file}"
    for line in before:
        yield line.replace(f"--onnx={name}.onnx", f"--onnx={export}")
    yield f"exec {server} {flags}"


def triton_variables() -> tuple[EnvVar, ...]:
    """Return the variable that names the folder of exported models."""
    return (EnvVar(name=MODEL_DIR, value=MODELS),)


def triton_mounts(settings: ResolvedSettings) -> tuple[BucketMount, ...]:
    """Return the mount of the folder with the exported model."""
    return (
        BucketMount(
            name="models", bucket=settings.bucket, path=MODELS, folder=FOLDER, is_read_only=True
        ),
    )


def upload_steps(
    blueprint: Blueprint, settings: ResolvedSettings, engine: EngineCommand
) -> Iterator[DeployStep]:
    """Yield the step that copies the exported model to the bucket; none for other engines."""
    if is_triton(engine):
        file = exported_file(blueprint, engine)
        yield DeployStep(
            what=f"Copy the exported model {file} to the bucket ({engine.note})",
            command=f"gcloud storage cp {file} gs://{settings.bucket}/{FOLDER}/{file}",
        )


def _model_name(blueprint: Blueprint) -> str:
    return repository_name(blueprint.workload.model)
