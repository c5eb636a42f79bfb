"""Ray: the job that is submitted, and a real Ray where one is installed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.provision.platform import Unsuitable
from gpuyard.provision.platforms.ray import RAY

from .decisions import SETTINGS, decision, made

TRAINING = decision("a3-ultragpu-8g", "multi-node", "spot")
START_S = 90
PROGRAM = shutil.which("ray", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_ray = pytest.mark.skipif(
    PROGRAM is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1",
    reason="ray is not installed (the extra `ray`)",
)


def test_the_runtime_environment_holds_the_plan() -> None:
    text = made(RAY, TRAINING).files[0].text
    found = re.search(r"^runtime='(\{.*?^\})'$", text, re.MULTILINE | re.DOTALL)
    assert found
    runtime = json.loads(found.group(1))
    assert runtime["working_dir"] == "."
    given = runtime["env_vars"]
    assert (given["NODE_COUNT"], given["GPUS_PER_NODE"], given["LIFETIME_S"]) == ("2", "8", "108000")
    assert given["NCCL_NET"] == "gIB"
    assert all(isinstance(value, str) for value in given.values())


def test_the_driver_is_python() -> None:
    text = made(RAY, TRAINING).files[0].text
    driver = re.search(r"<<'DRIVER'\n(.*?)\nDRIVER\n", text, re.DOTALL)
    assert driver
    compile(driver.group(1), "driver.py", "exec")


def test_services_and_slices_belong_elsewhere() -> None:
    for blueprint, nearest in (
        (decision("g2-standard-24", "service", "spot"), "gke"),
        (decision("hgx-h100", "service"), "kubernetes"),
        (decision("ct5lp-hightpu-4t", "multi-node", "spot"), "gke"),
    ):
        found = RAY.render(blueprint, SETTINGS)
        assert isinstance(found, Unsuitable)
        assert found.nearest == nearest


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


@contextlib.contextmanager
def ray_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A Ray of this host alone with eight virtual GPUs and a token of its own: the environment that reaches it."""
    assert PROGRAM, "ray is not installed"
    port = free_port()
    place = {
        **os.environ,
        "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}",  # its Python runs the driver
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = ["ray", "start", "--head", "--block", "--num-gpus=8", "--num-cpus=4", f"--port={free_port()}"]
    command += [f"--dashboard-port={port}", "--include-dashboard=true"]
    with (folder / "ray.log").open("wb") as log:
        process = subprocess.Popen(command, env=place, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}", folder / "ray.log")
        yield {**place, "RAY_ADDRESS": f"http://127.0.0.1:{port}"}
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait(address: str, log: Path) -> None:
    """Until the dashboard answers anything, and a moment for its job server."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/api/version", timeout=5):
                return
        except urllib.error.HTTPError:
            return  # it asks for its token
        except OSError:
            time.sleep(1)
    raise RuntimeError(log.read_text(errors="replace"))


@needs_ray
def test_a_real_ray_runs_the_job(tmp_path: Path) -> None:
    program = "echo rank=$NODE_RANK/$NODE_COUNT gpus=$CUDA_VISIBLE_DEVICES precision=$PLAN_PRECISION"
    settings = replace(SETTINGS, framework="command", program=program)
    for file in made(RAY, decision("a3-ultragpu-8g", "single-node", "spot"), settings).files:
        (tmp_path / file.name).write_text(file.text)
    with ray_cluster(tmp_path) as place:
        done = subprocess.run(
            ["bash", "20-submit.sh", "one"], cwd=tmp_path, env=place, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank=0/1 gpus=0,1,2,3,4,5,6,7 precision=bf16" in done.stdout
