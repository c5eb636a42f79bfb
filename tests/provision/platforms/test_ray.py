"""Ray: the submitted job, and a real Ray cluster if Ray is installed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.jobs.rendezvous import free_port
from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.ray.ray_platform import RAY

from .rendering import SETTINGS, blueprint_of, render, render_artefacts

TRAINING = blueprint_of("a3-ultragpu-8g", "multi-node", "spot")
START_S = 300
PROGRAM = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_ray = pytest.mark.skipif(
    PROGRAM is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1",
    reason="ray is not installed (the extra `ray`)",
)


def test_ray_runtime_environment_has_plan_variables() -> None:
    text = render_artefacts(RAY, TRAINING).files[0].text
    result = re.search(r"^runtime='(\{.*?^\})'$", text, re.MULTILINE | re.DOTALL)
    assert result
    runtime = json.loads(result.group(1))
    assert runtime["working_dir"] == "."
    given = runtime["env_vars"]
    assert (given["NODE_COUNT"], given["GPUS_PER_NODE"], given["LIFETIME_S"]) == (
        "2",
        "8",
        "108000",
    )
    assert "export NCCL_NET=gIB" in text
    assert all(isinstance(value, str) for value in given.values())


def test_ray_driver_is_valid_python() -> None:
    text = render_artefacts(RAY, TRAINING).files[0].text
    driver = re.search(r"<<'DRIVER'\n(.*?)\nDRIVER\n", text, re.DOTALL)
    assert driver
    compile(driver.group(1), "driver.py", "exec")


def test_ray_is_unsuitable_for_services_and_tpus() -> None:
    for blueprint, nearest in (
        (blueprint_of("g2-standard-24", "service", "spot"), "gke"),
        (blueprint_of("hgx-h100", "service"), "kubernetes"),
        (blueprint_of("ct5lp-hightpu-4t", "multi-node", "spot"), "gke"),
    ):
        result = render(RAY, blueprint, SETTINGS)
        assert isinstance(result, Unsuitable)
        assert result.nearest == nearest


@contextlib.contextmanager
def ray_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start a local Ray with eight virtual GPUs; yield the environment that connects to it."""
    assert PROGRAM, "ray is not installed"
    port = free_port()
    place = {
        **os.environ,
        "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}",  # its Python runs the driver
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [
        "ray",
        "start",
        "--head",
        "--block",
        "--num-gpus=8",
        "--num-cpus=4",
        f"--port={free_port()}",
    ]
    command += [f"--dashboard-port={port}", "--include-dashboard=true"]
    # With the default ports, the job agent does not start next to another Ray on this host.
    for name in ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export"):
        command.append(f"--{name}-port={free_port()}")
    with (folder / "ray.log").open("wb") as log:
        process = subprocess.Popen(command, env=place, stdout=log, stderr=log)
    try:
        environment = {**place, "RAY_ADDRESS": f"http://127.0.0.1:{port}"}
        _wait_until_jobs_run(environment, folder / "ray.log")
        yield environment
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _wait_until_jobs_run(environment: dict[str, str], log: Path) -> None:
    """Submit an empty job until one runs: the dashboard responds before its job agent is ready."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        done = subprocess.run(
            ["ray", "job", "submit", "--", "true"],
            env=environment,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return
        time.sleep(1)
    raise RuntimeError(log.read_text(errors="replace"))


@needs_ray
def test_ray_cluster_runs_the_job(tmp_path: Path) -> None:
    program = (
        "echo rank=$NODE_RANK/$NODE_COUNT gpus=$CUDA_VISIBLE_DEVICES precision=$PLAN_PRECISION"
    )
    settings = replace(SETTINGS, framework="command", program=program)
    for file in render_artefacts(
        RAY, blueprint_of("a3-ultragpu-8g", "single-node", "spot"), settings
    ).files:
        (tmp_path / file.name).write_text(file.text)
    with ray_cluster(tmp_path) as place:
        done = subprocess.run(
            ["bash", "20-submit.sh", "one"],
            cwd=tmp_path,
            env=place,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank=0/1 gpus=0,1,2,3,4,5,6,7 precision=bf16" in done.stdout
