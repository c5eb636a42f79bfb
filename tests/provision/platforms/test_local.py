"""Local: the rendered scripts are executed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.provision.deployment_settings import DeploymentSettings
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.local.local_platform import LOCAL

from .rendering import SETTINGS, blueprint_of, render, render_artefacts

ALONE = blueprint_of("g2-standard-24", "single-node", "spot")  # two L4


def ran(
    blueprint: Blueprint, settings: DeploymentSettings, folder: Path, gpus: int, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the script on a machine whose nvidia-smi lists a number of GPUs."""
    for file in render_artefacts(LOCAL, blueprint, settings).files:
        (folder / file.name).write_text(file.text)
    (folder / "nvidia-smi").write_text(
        "#!/bin/sh\n" + f"for gpu in $(seq {gpus}); do echo GPU; done\n" * bool(gpus)
    )
    (folder / "nvidia-smi").chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"  # Debian alone has no "python"
    place = {**os.environ, "PATH": path, **more}
    return subprocess.run(
        ["bash", "20-run.sh"],
        cwd=folder,
        env=place,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_local_script_runs_program_with_environment(tmp_path: Path) -> None:
    program = "echo $NODE_RANK/$NODE_COUNT $PLAN_PRECISION $CHECKPOINT_DIR $DATA_DIR"
    settings = replace(SETTINGS, framework="command", program=program)
    done = ran(ALONE, settings, tmp_path, 2, DATA_DIR="/elsewhere")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"0/1 bf16 {tmp_path}/checkpoints /elsewhere"
    assert (tmp_path / "checkpoints").is_dir()


def test_local_script_runs_python_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os; print('steps of', os.environ['PLAN_MICRO_BATCH'])\n"
    )
    done = ran(ALONE, replace(SETTINGS, framework="jax", program="train.py"), tmp_path, 2)
    assert (done.returncode, done.stdout.strip()) == (0, "steps of 1")


def test_local_script_returns_exit_code_of_program(tmp_path: Path) -> None:
    assert (
        ran(ALONE, replace(SETTINGS, framework="command", program="exit 7"), tmp_path, 2).returncode
        == 7
    )


def test_local_script_stops_program_at_ttl(tmp_path: Path) -> None:
    settings = replace(SETTINGS, framework="command", program="sleep 50", ttl_s=1.0)
    assert ran(ALONE, settings, tmp_path, 2).returncode == 124


def test_local_script_fails_when_machine_has_too_few_gpus(tmp_path: Path) -> None:
    done = ran(ALONE, replace(SETTINGS, framework="command", program="echo no"), tmp_path, 1)
    assert done.returncode == 3
    assert "this machine has 1 GPUs; llama-3-8b-single-node needs 2" in done.stderr


def test_local_script_runs_several_servers(tmp_path: Path) -> None:
    blueprint = blueprint_of("g2-standard-24", "service", "spot")
    service = blueprint.option.service
    assert service is not None
    halves = replace(
        blueprint,
        option=replace(blueprint.option, service=replace(service, chips_per_replica=1, tp=1)),
    )
    (tmp_path / "vllm").write_text('#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES: $*"; sleep 1\n')
    (tmp_path / "vllm").chmod(0o755)
    done = ran(halves, SETTINGS, tmp_path, 2)
    lines = sorted(done.stdout.splitlines())
    assert [line.split(":")[0] for line in lines] == ["0", "1"]
    assert [line.split()[-1] for line in lines] == ["8000", "8001"]


def test_local_is_unsuitable_for_several_machines() -> None:
    for blueprint in (
        blueprint_of("g2-standard-24", "multi-node", "spot"),
        blueprint_of("a3-ultragpu-8g", "service", "spot", 2),
    ):
        result = render(LOCAL, blueprint, SETTINGS)
        assert isinstance(result, Unsuitable)
        assert "this is one" in result.why
        assert result.nearest
