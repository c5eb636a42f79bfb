"""Triton: repository and engine are built before the server starts, on every machine."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.plan.single_pass_servers import single_pass_server
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.server import program_on_port, server_launch
from gpuyard.provision.launch.triton import upload_steps
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()


def blueprint_of(model: str, machine: str = "g2-standard-4", tokens: int = 0) -> Blueprint:
    row = CATALOG.machine(machine)
    sample = BlueprintSample(machine=row, shape="service", consumption="on-demand")
    blueprint = sample_blueprint(sample, CATALOG)
    chosen = next(item for item in CATALOG.models if item.name == model)
    engine = single_pass_server(chosen, row, 16, 0.004, "fp16", CATALOG, tokens)
    service = blueprint.option.service
    assert service is not None
    service = replace(service, engine=engine, chips_per_replica=1 if row.chip else 0)
    return replace(
        blueprint,
        workload=replace(blueprint.workload, model=chosen),
        option=replace(blueprint.option, service=service),
    )


def launch_of(blueprint: Blueprint) -> Launch:
    settings = resolve_settings(blueprint, DeploymentSettings(project="my-project"))
    return server_launch(blueprint, settings, "pod")


@pytest.mark.parametrize(
    ("model", "machine", "file", "engine"),
    [
        ("resnet-50", "g2-standard-4", "resnet-50.onnx", "tensorrt"),
        ("resnet-50", "c3-standard-44", "resnet-50.onnx", "onnxruntime"),
        ("xgboost-500x8", "c3-standard-44", "xgboost-500x8.ubj", "triton-fil"),
    ],
)
@pytest.mark.slow
def test_launch_builds_the_repository_and_starts_the_server(
    tmp_path: Path, model: str, machine: str, file: str, engine: str
) -> None:
    launch = launch_of(blueprint_of(model, machine))
    assert launch.framework == engine
    assert launch.health == "/v2/health/ready"
    models, binaries = tmp_path / "exports", tmp_path / "bin"
    models.mkdir()
    binaries.mkdir()
    (models / file).write_text("exported")
    fakes = {
        "trtexec": 'for a; do case $a in --saveEngine=*) echo plan >"${a#*=}";; esac; done',
        "tritonserver": f'pwd >{tmp_path}/where; echo "$@" >{tmp_path}/arguments',
    }
    for name, body in fakes.items():
        path = binaries / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    environment["MODEL_DIR"] = str(models)
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        ["bash", "-c", launch.script()], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    repository = Path((tmp_path / "where").read_text().strip()) / "models" / model
    name = {"tensorrt": "model.plan", "onnxruntime": "model.onnx", "triton-fil": "xgboost.ubj"}
    assert (repository / "1" / name[engine]).exists()
    assert f'name: "{model}"' in (repository / "config.pbtxt").read_text()
    assert "--http-port 8000" in (tmp_path / "arguments").read_text()


def test_encoder_profile_covers_every_input_at_the_planned_length() -> None:
    program = launch_of(blueprint_of("bert-large", tokens=256)).program
    shape = "input_ids:16x256,attention_mask:16x256,token_type_ids:16x256"
    assert f"--maxShapes={shape}" in program


def test_second_server_of_a_machine_has_separate_ports() -> None:
    launch = launch_of(blueprint_of("resnet-50"))
    assert "--http-port 8001 --metrics-port 9001" in program_on_port(launch, 1)


def test_upload_step_copies_the_export_to_the_mounted_folder() -> None:
    blueprint = blueprint_of("resnet-50")
    settings = resolve_settings(blueprint, DeploymentSettings(project="my-project"))
    (mount,) = launch_of(blueprint).mounts
    service = blueprint.option.service
    assert service is not None
    (step,) = upload_steps(blueprint, settings, service.engine)
    assert step.command.endswith(f"gs://{mount.bucket}/{mount.folder}/resnet-50.onnx")
