"""Mirroring to a real MLflow server and importing back, and error messages without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.http import HttpError
from gpuyard.jobs.rendezvous import free_port
from gpuyard.registry.bundle import Metric, ModelBundle, ModelLineage, Tag, Tensor, write_bundle
from gpuyard.registry.mlflow import _mlmodel, import_version, mirror_version
from gpuyard.registry.mlflow_client import MlflowClient, connect_mlflow, error_code
from gpuyard.registry.registry import ModelVersion, Registry


@pytest.fixture(scope="module")
def server(mlflow_server: str) -> MlflowClient:
    return connect_mlflow(mlflow_server)


def registered(
    tmp_path: Path, name: str = "wine", contents: bytes = b"weights", parameters: int = 3
) -> ModelVersion:
    folder = tmp_path / f"bundle-{name}"
    (folder / "weights").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(contents)
    (folder / "weights" / "a b%é.bin").write_bytes(b"\x00" * 100_000)
    write_bundle(
        folder,
        ModelBundle(
            kind="classification",
            trainer="trees",
            inputs=(Tensor(name="x", dtype="float32", shape=(-1, 3)),),
            outputs=(Tensor(name="probabilities", dtype="float32", shape=(-1, 2)),),
            classes=("no", "yes"),
            metrics=(Metric(name="roc_auc", value=0.91, low=0.9, high=0.92),),
            lineage=ModelLineage(
                data="data-hash",
                transform="transform-hash",
                code="gpuyard 1",
                run="run-7",
                parameters=tuple(
                    Tag(name=f"trees.p{number}", value=str(number)) for number in range(parameters)
                ),
                environment=(Tag(name="python", value="3.11"),),
            ),
        ),
    )
    own = Registry(home=Home(path=tmp_path / "home"))
    version = own.register(name, folder)
    return own.alias(name, "champion", version.version)


def test_version_is_mirrored_once_with_lineage_files_and_alias(
    server: MlflowClient, tmp_path: Path
) -> None:
    version = registered(tmp_path, parameters=130)
    first = mirror_version(server, version)
    assert first.fresh
    again = mirror_version(server, version)
    assert (again.fresh, again.server_version, again.run_id) == (
        False,
        first.server_version,
        first.run_id,
    )
    run = server.get("mlflow/runs/get", run_id=first.run_id)["run"]
    assert isinstance(run, dict)
    text = json.dumps(run)
    for words in (
        "data-hash",
        "transform-hash",
        "gpuyard 1",
        "run-7",
        version.digest,
        '"environment.python"',
    ):
        assert words in text
    data, info = run["data"], run["info"]
    assert isinstance(data, dict)
    assert isinstance(info, dict)
    assert info["status"] == "FINISHED"
    assert len(data["params"]) == 130  # type: ignore[arg-type]
    assert [(item["key"], item["value"]) for item in data["metrics"]] == [("roc_auc", 0.91)]  # type: ignore[union-attr,index,call-overload]
    alias = server.get("mlflow/registered-models/alias", name="wine", alias="champion")[
        "model_version"
    ]
    assert isinstance(alias, dict)
    assert alias["version"] == str(first.server_version)
    files = set(server.files(str(alias["source"])))
    assert files == {"MLmodel", "card.md", "model.json", "model.onnx", "weights/a b%é.bin"}


def test_mirrored_version_imports_with_the_same_digest(
    server: MlflowClient, tmp_path: Path
) -> None:
    version = registered(tmp_path, "roundtrip")
    number = mirror_version(server, version).server_version
    other = Registry(home=Home(path=tmp_path / "other"))
    for reference in ("roundtrip", "roundtrip@champion", f"roundtrip/{number}", "roundtrip@latest"):
        imported = import_version(server, other, reference)
        assert (imported.digest, imported.version) == (version.digest, 1)
    assert imported.lineage.data == "data-hash"
    assert imported.lineage.parent == f"{server.uri} roundtrip/{number}"
    assert (other.get("roundtrip").path / "weights" / "a b%é.bin").stat().st_size == 100_000
    assert import_version(server, other, "roundtrip", name="renamed").reference == "renamed/1"


def test_interrupted_upload_resumes_in_the_same_run(
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
    experiment = server.get("mlflow/experiments/get-by-name", experiment_name="gpuyard")[
        "experiment"
    ]
    assert isinstance(experiment, dict)
    query = {
        "experiment_id": str(experiment["experiment_id"]),
        "filter": f"tags.`gpuyard.digest` = '{version.digest}'",
    }
    runs = list(server.search("mlflow/runs/search", "runs", query, post=True))
    assert len(runs) == 1


def test_import_raises_input_error_when_files_changed_on_the_server(
    server: MlflowClient, tmp_path: Path
) -> None:
    version = registered(tmp_path, "tampered")
    number = mirror_version(server, version).server_version
    remote = server.get("mlflow/model-versions/get", name="tampered", version=str(number))[
        "model_version"
    ]
    assert isinstance(remote, dict)
    (tmp_path / "evil").write_bytes(b"other")
    server.upload(f"{remote['source']}/model.onnx", tmp_path / "evil")
    other = Registry(home=Home(path=tmp_path / "other"))
    with pytest.raises(InputError, match="SHA-256 mismatch"):
        import_version(server, other, "tampered")
    assert other.names() == ()


def test_import_of_missing_or_foreign_model_raises_error(
    server: MlflowClient, tmp_path: Path
) -> None:
    own = Registry(home=Home(path=tmp_path / "home"))
    with pytest.raises(InputError, match="no such model"):
        import_version(server, own, "nowhere")
    with pytest.raises(HttpError) as error:
        import_version(server, own, "nowhere/3")
    assert error_code(error.value) == "RESOURCE_DOES_NOT_EXIST"
    server.post("mlflow/registered-models/create", {"name": "foreign"})
    source = str(tmp_path)
    run = server.post("mlflow/runs/create", {"experiment_id": "0", "start_time": 0})["run"]
    assert isinstance(run, dict)
    info = run["info"]
    assert isinstance(info, dict)
    source = f"{info['artifact_uri']}/model"
    (tmp_path / "MLmodel").write_text("flavors: {}\n")
    server.upload(f"{source}/MLmodel", tmp_path / "MLmodel")
    server.post(
        "mlflow/model-versions/create",
        {"name": "foreign", "source": source, "run_id": str(info["run_id"])},
    )
    with pytest.raises(InputError, match="not exported by gpuyard"):
        import_version(server, own, "foreign")


def test_unreachable_server_raises_external_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.retry.RetryPolicy.wait_s", lambda *_: 0.0)
    port = free_port()
    with pytest.raises(ExternalError, match="no response"):
        connect_mlflow(f"http://127.0.0.1:{port}").get("mlflow/experiments/search")


@pytest.mark.parametrize("scheme", ["http", "databricks"])
def test_password_in_a_uri_is_not_printed(scheme: str) -> None:
    with pytest.raises(InputError) as caught:
        connect_mlflow(f"{scheme}://me:s3cret@host").get("mlflow/experiments/search")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("uri", ["", "file:///etc", "mlruns", "databricks", "http://"])
def test_uri_that_is_not_http_raises_input_error(uri: str) -> None:
    with pytest.raises(InputError, match="is not a server address"):
        connect_mlflow(uri)


def test_credentials_come_from_mlflow_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "user")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "word")
    assert connect_mlflow("https://host/").authorization == "Basic dXNlcjp3b3Jk"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    assert connect_mlflow("https://host/") == MlflowClient(
        uri="https://host", authorization="Bearer token"
    )


def test_artifacts_outside_the_proxy_raise_external_error() -> None:
    with pytest.raises(ExternalError, match="not served"):
        list(MlflowClient(uri="http://host").files("s3://bucket/model"))


def test_language_models_have_no_onnx_flavour() -> None:
    bundle = ModelBundle(kind="language", trainer="lora", inputs=(), outputs=())
    assert "flavors: {}" in _mlmodel(bundle, "r")
