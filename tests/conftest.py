"""Settings and fixtures of all tests.

Property tests have no deadline, for a busy machine is not a failure; the same examples every time
in CI.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gpuyard.jobs.rendezvous import free_port

MLFLOW_START_S = 300.0  # a ceiling: busy machines are no failure

settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")

# Threads that wait for a busy core are slower than one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tiny shapes: compilation dominates.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# The files that take longest start first, so that none is left to run alone at the end.
LONGEST = (
    "tests/faults/test_kills_of_searches.py",
    "tests/faults/test_kills_of_runs.py",
    "tests/provision/apply/test_kill.py",
    "tests/cli/test_wheel.py",
    "tests/learn/test_worker.py",
    "tests/contract/test_engines.py",
    "tests/fuzz/test_fuzz.py",
    "tests/provision/platforms/test_examples.py",
    "tests/provision/apply/test_faults.py",
    "tests/app/test_examples.py",
    "tests/scenarios/test_scenarios.py",
    "tests/test_rules.py",
    "tests/provision/apply/test_kubectl.py",
    "tests/provision/platforms/test_contract.py",
    "tests/app/test_run.py",
    "tests/test_tutorials.py",
    "tests/lab/test_run.py",
    "tests/app/test_own_programs.py",
    "tests/api/test_notebooks.py",
    "tests/learn/test_trainer_language.py",
    "tests/cli/test_provision.py",
    "tests/datasets/test_prepare.py",
    "tests/provision/platforms/test_ray.py",
    "tests/app/test_up.py",
    "tests/lab/test_live.py",
    "tests/web/test_chromium.py",
    "tests/datasets/test_ray_engine.py",
    "tests/accuracy/test_inference.py",
    "tests/contract/test_scores.py",
    "tests/test_jit.py",
    "tests/test_docs.py",
    "tests/cli/test_plan.py",
    "tests/provision/platforms/test_supervision.py",
    "tests/serving/test_rollout.py",
    "tests/document/test_read.py",
    "tests/registry/test_mlflow.py",
    "tests/cli/test_optional_packages.py",
    "tests/app/test_select.py",
    "tests/learn/select/test_select.py",
    "tests/plan/test_hpc.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of the longest files to the front."""
    order = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.split("::")[0], len(order)))


# The key that signs rendered folders is never the user's own.
STATE = tempfile.TemporaryDirectory(prefix="gpuyard-state-")
os.environ["XDG_STATE_HOME"] = STATE.name


@pytest.fixture(scope="session")
def certificate() -> Callable[[Path], tuple[str, str]]:
    """Make a self-signed certificate and its key in a new folder; return their paths."""
    if shutil.which("openssl") is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no openssl"
        pytest.skip("no openssl")

    def make(folder: Path) -> tuple[str, str]:
        folder.mkdir()
        cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
        words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        subprocess.run(
            [*words.split(), "-subj", "/CN=test", "-out", cert, "-keyout", key],
            check=True,
            capture_output=True,
        )
        return cert, key

    return make


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a real MLflow server on a free port; yield its address."""
    installed = Path(__file__).parent.parent / ".venv-mlflow" / "bin" / "mlflow"
    program = os.environ.get("GPUYARD_MLFLOW") or (
        str(installed) if installed.is_file() else shutil.which("mlflow")
    )
    if program is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no mlflow: make mlflow installs it"
        pytest.skip("no mlflow: make mlflow installs it")
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    stored = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    stored += ["--artifacts-destination", str(folder / "artifacts")]
    command = [program, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *stored],
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env=env | quiet,
        )
    try:
        uri = f"http://127.0.0.1:{port}"
        until_s = time.monotonic() + MLFLOW_START_S
        while time.monotonic() < until_s:
            try:
                with urllib.request.urlopen(f"{uri}/health", timeout=60) as response:
                    assert response.read() == b"OK"
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.2)
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
