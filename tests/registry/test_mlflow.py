"""The mirror against a real MLflow server: up, again, back; and what is said when the server is not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.registry import Bundle, Lineage, Metric, ModelVersion, Pair, Registry, Tensor, write_bundle
from gpuyard.registry.mlflow import _mlmodel, import_version, mirror_version
from gpuyard.registry.mlflow_client import MlflowClient, MlflowError, connect_mlflow

ROOT = Path(__file__).parent.parent.parent


def program() -> str | None:
    """The mlflow command, where there is one."""
    beside = ROOT / ".venv-mlflow" / "bin" / "mlflow"
    return os.environ.get("GPUYARD_MLFLOW") or (str(beside) if beside.is_file() else shutil.which("mlflow"))


MLFLOW = program()
real = pytest.mark.skipif(
    MLFLOW is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1", reason="no mlflow: make mlflow installs it"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowClient]:
    """A real server on a free port."""
    assert MLFLOW is not None, "no mlflow: make mlflow installs it"
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    command = [
        MLFLOW, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, start_new_session=True,
            env=kept | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )  # fmt: skip
    try:
        uri = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{uri}/health", timeout=5) as answer:
                    assert answer.read() == b"OK"
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.2)
        yield connect_mlflow(uri)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def registered(tmp_path: Path, name: str = "wine", contents: bytes = b"weights", parameters: int = 3) -> ModelVersion:
    """A version in a registry of its own; a file in a folder, names that must be quoted, many parameters."""
    folder = tmp_path / f"bundle-{name}"
    (folder / "weights").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(contents)
    (folder / "weights" / "a b%é.bin").write_bytes(b"\x00" * 100_000)
    write_bundle(
        folder,
        Bundle(
            kind="classification",
            trainer="trees",
            inputs=(Tensor(name="x", dtype="float32", shape=(-1, 3)),),
            outputs=(Tensor(name="probabilities", dtype="float32", shape=(-1, 2)),),
            classes=("no", "yes"),
            metrics=(Metric(name="roc_auc", value=0.91, low=0.9, high=0.92),),
            lineage=Lineage(
                data="data-hash", transform="transform-hash", code="gpuyard 1", run="run-7",
                parameters=tuple(Pair(name=f"trees.p{number}", value=str(number)) for number in range(parameters)),
                environment=(Pair(name="python", value="3.11"),),
            ),
        ),
    )  # fmt: skip
    own = Registry(home=Home(path=tmp_path / "home"))
    version = own.register(name, folder)
    return own.alias(name, "champion", version.version)


@real
def test_a_version_is_mirrored_once_with_lineage_files_and_alias(server: MlflowClient, tmp_path: Path) -> None:
    version = registered(tmp_path, parameters=130)
    first = mirror_version(server, version)
    assert first.fresh
    again = mirror_version(server, version)
    assert (again.fresh, again.server_version, again.run_id) == (False, first.server_version, first.run_id)
    run = server.get("mlflow/runs/get", run_id=first.run_id)["run"]
    assert isinstance(run, dict)
    text = json.dumps(run)
    for words in ("data-hash", "transform-hash", "gpuyard 1", "run-7", version.digest, '"environment.python"'):
        assert words in text
    data, info = run["data"], run["info"]
    assert isinstance(data, dict)
    assert isinstance(info, dict)
    assert info["status"] == "FINISHED"
    assert len(data["params"]) == 130  # type: ignore[arg-type]
    assert [(item["key"], item["value"]) for item in data["metrics"]] == [("roc_auc", 0.91)]  # type: ignore[union-attr,index,call-overload]
    alias = server.get("mlflow/registered-models/alias", name="wine", alias="champion")["model_version"]
    assert isinstance(alias, dict)
    assert alias["version"] == str(first.server_version)
    files = set(server.files(str(alias["source"])))
    assert files == {"MLmodel", "card.md", "model.json", "model.onnx", "weights/a b%é.bin"}


@real
def test_a_mirrored_version_is_imported_whole(server: MlflowClient, tmp_path: Path) -> None:
    version = registered(tmp_path, "roundtrip")
    number = mirror_version(server, version).server_version
    other = Registry(home=Home(path=tmp_path / "other"))
    for reference in ("roundtrip", "roundtrip@champion", f"roundtrip/{number}", "roundtrip@latest"):
        found = import_version(server, other, reference)
        assert (found.digest, found.version) == (version.digest, 1)
    assert found.lineage.data == "data-hash"
    assert found.lineage.parent == f"{server.uri} roundtrip/{number}"
    assert (other.get("roundtrip").path / "weights" / "a b%é.bin").stat().st_size == 100_000
    assert import_version(server, other, "roundtrip", name="renamed").reference == "renamed/1"


@real
def test_an_interrupted_upload_is_gone_on_with(
    server: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = registered(tmp_path, "cut")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "upload", stop)
        with pytest.raises(KeyboardInterrupt):
            mirror_version(server, version)
    done = mirror_version(server, version)
    assert done.fresh
    experiment = server.get("mlflow/experiments/get-by-name", experiment_name="gpuyard")["experiment"]
    assert isinstance(experiment, dict)
    query = {"experiment_id": str(experiment["experiment_id"]), "filter": f"tags.`gpuyard.digest` = '{version.digest}'"}
    runs = list(server.search("mlflow/runs/search", "runs", query, post=True))
    assert len(runs) == 1


@real
def test_files_that_were_changed_on_the_server_are_not_imported(server: MlflowClient, tmp_path: Path) -> None:
    version = registered(tmp_path, "tampered")
    number = mirror_version(server, version).server_version
    found = server.get("mlflow/model-versions/get", name="tampered", version=str(number))["model_version"]
    assert isinstance(found, dict)
    (tmp_path / "evil").write_bytes(b"other")
    server.upload(f"{found['source']}/model.onnx", tmp_path / "evil")
    other = Registry(home=Home(path=tmp_path / "other"))
    with pytest.raises(InputError, match="SHA-256 differs"):
        import_version(server, other, "tampered")
    assert other.names() == ()


@real
def test_what_the_server_does_not_have_is_told(server: MlflowClient, tmp_path: Path) -> None:
    own = Registry(home=Home(path=tmp_path / "home"))
    with pytest.raises(InputError, match="no such model"):
        import_version(server, own, "nowhere")
    with pytest.raises(MlflowError, match="RESOURCE_DOES_NOT_EXIST"):
        import_version(server, own, "nowhere/3")
    server.post("mlflow/registered-models/create", {"name": "foreign"})
    source = str(tmp_path)
    made = server.post("mlflow/runs/create", {"experiment_id": "0", "start_time": 0})["run"]
    assert isinstance(made, dict)
    info = made["info"]
    assert isinstance(info, dict)
    source = f"{info['artifact_uri']}/model"
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    server.upload(f"{source}/MLmodel", tmp_path / "MLmodel")
    server.post("mlflow/model-versions/create", {"name": "foreign", "source": source, "run_id": str(info["run_id"])})
    with pytest.raises(InputError, match="gpuyard did not export it"):
        import_version(server, own, "foreign")


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.registry.mlflow_client.time.sleep", lambda _: None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RefusedError, match="cannot be reached"):
        connect_mlflow(f"http://127.0.0.1:{port}").get("mlflow/experiments/search")


@pytest.mark.parametrize("uri", ["", "file:///etc", "mlruns", "databricks", "http://"])
def test_only_a_server_can_be_mirrored_to(uri: str) -> None:
    with pytest.raises(InputError, match="is not the address of a server"):
        connect_mlflow(uri)


def test_credentials_come_from_the_variables_that_mlflow_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "user")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "word")
    assert connect_mlflow("https://host/").authorization == "Basic dXNlcjp3b3Jk"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    assert connect_mlflow("https://host/") == MlflowClient(uri="https://host", authorization="Bearer token")


def test_artifacts_that_the_server_does_not_hand_out_are_refused() -> None:
    with pytest.raises(RefusedError, match="not handed out"):
        list(MlflowClient(uri="http://host").files("s3://bucket/model"))


def test_language_models_have_no_onnx_flavour() -> None:
    bundle = Bundle(kind="language", trainer="lora", inputs=(), outputs=())
    assert "flavors: {}" in _mlmodel(bundle, "r")
