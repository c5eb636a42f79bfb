"""The mirror: versions, lineage, files and aliases on an MLflow tracking server, and back."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuyard.document import Plain
from gpuyard.errors import InputError, RefusedError
from gpuyard.registry.bundle import CARD, DESCRIPTION, ONNX, Bundle, read_bundle
from gpuyard.registry.mlflow_client import MlflowClient, MlflowError
from gpuyard.registry.names import LATEST, Reference, read_reference
from gpuyard.registry.registry import ModelVersion, Registry

__all__ = ["Mirrored", "import_version", "mirror_version"]

EXPERIMENT = "gpuyard"
FOLDER = "model"  # of a run's artifacts
MLMODEL = "MLmodel"  # MLflow's own description, so that its tools can load the model
DIGEST, NUMBER = "gpuyard.digest", "gpuyard.version"
MOST_PARAMS, MOST_VALUE = 100, 6000  # of one log-batch call, and characters of a value (MLflow's own limits)
MOST_TAG = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A version and the one that it is on the server."""

    reference: str
    server_version: int
    run_id: str
    fresh: bool  # uploaded now; False: it was there already
    aliases: tuple[str, ...]


def mirror_version(client: MlflowClient, version: ModelVersion) -> Mirrored:
    """Puts a version on the server, once: again only its aliases are set. An interrupted upload is gone on with."""
    _model(client, version.name)
    found = _standing(client, version)
    fresh = found is None
    if found is None:
        run_id, location = _run(client, version)
        _upload(client, version, run_id, location)
        found = _version(client, version, run_id, location)
    number, run_id = found
    for alias in version.aliases:
        client.post("mlflow/registered-models/alias", {"name": version.name, "alias": alias, "version": str(number)})
    return Mirrored(
        reference=version.reference, server_version=number, run_id=run_id, fresh=fresh, aliases=version.aliases
    )


def import_version(client: MlflowClient, registry: Registry, reference: str, name: str = "") -> ModelVersion:
    """Registers a model of the server that is a bundle: its files are downloaded and their hashes checked."""
    wanted = read_reference(reference)
    found = _wanted(client, wanted)
    source, number = str(found["source"]), str(found["version"])
    with tempfile.TemporaryDirectory(prefix="gpuyard-import-") as folder:
        place = Path(folder) / "bundle"
        paths = [path for path in client.files(source) if path != MLMODEL]
        if DESCRIPTION not in paths:
            raise InputError.one(
                f"{client.uri}: {wanted.name}/{number}",
                f"has no {DESCRIPTION}: gpuyard did not export it",
                "import a model that `gpuyard models mirror` put there",
            )
        for path in paths:
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise RefusedError(client.uri, f'file "{path}" leads out of the bundle', "do not trust this server")
            client.download(f"{source.rstrip('/')}/{path}", place / path)
        bundle = read_bundle(place)
        parent = f"{client.uri} {wanted.name}/{number}"
        lineage = dataclasses.replace(bundle.lineage, parent=parent)
        return registry.register(name or wanted.name, place, lineage=lineage)


def _model(client: MlflowClient, name: str) -> None:
    """Makes the registered model where it is not there."""
    try:
        client.post("mlflow/registered-models/create", {"name": name})
    except MlflowError as error:
        if error.code != "RESOURCE_ALREADY_EXISTS":
            raise


def _standing(client: MlflowClient, version: ModelVersion) -> tuple[int, str] | None:
    """The number and run of the version on the server, if it is there."""
    query = {"filter": f"name='{version.name}'", "max_results": "200"}
    for item in client.search("mlflow/model-versions/search", "model_versions", query):
        if _tags(item).get(DIGEST) == version.digest:
            return int(str(item["version"])), str(item.get("run_id") or "")
    return None


def _tags(item: dict[str, Plain]) -> dict[str, str]:
    """The tags of a version."""
    tags = item.get("tags") or []
    assert isinstance(tags, list)
    return {str(tag["key"]): str(tag.get("value", "")) for tag in tags if isinstance(tag, dict)}


def _run(client: MlflowClient, version: ModelVersion) -> tuple[str, str]:
    """The run of the version and where its files go: one that was interrupted, or a new one."""
    experiment = _experiment(client)
    query = {"experiment_id": experiment, "filter": f"tags.`{DIGEST}` = '{version.digest}'"}
    started: Sequence[dict[str, Plain]] = list(client.search("mlflow/runs/search", "runs", query, post=True))
    if started:
        run = started[0]
    else:
        body: dict[str, Plain] = {
            "experiment_id": experiment, "run_name": version.reference, "start_time": round(version.created_s * 1000),
            "tags": [{"key": key, "value": value[:MOST_TAG]} for key, value in _facts(version)],
        }  # fmt: skip
        made = client.post("mlflow/runs/create", body)["run"]
        assert isinstance(made, dict)
        run = made
    info = run["info"]
    assert isinstance(info, dict)
    return str(info["run_id"]), f"{str(info['artifact_uri']).rstrip('/')}/{FOLDER}"


def _experiment(client: MlflowClient) -> str:
    """The experiment that all mirrored runs belong to."""
    try:
        return str(client.post("mlflow/experiments/create", {"name": EXPERIMENT})["experiment_id"])
    except MlflowError as error:
        if error.code != "RESOURCE_ALREADY_EXISTS":
            raise
    found = client.get("mlflow/experiments/get-by-name", experiment_name=EXPERIMENT)["experiment"]
    assert isinstance(found, dict)
    return str(found["experiment_id"])


def _facts(version: ModelVersion) -> list[tuple[str, str]]:
    """Lineage as tags."""
    lineage = version.lineage
    pairs = [
        (DIGEST, version.digest), (NUMBER, str(version.version)), ("gpuyard.model", version.name),
        ("gpuyard.kind", version.bundle.kind), ("gpuyard.trainer", version.bundle.trainer),
        ("gpuyard.data", lineage.data), ("gpuyard.transform", lineage.transform), ("gpuyard.code", lineage.code),
        ("gpuyard.run", lineage.run), ("gpuyard.parent", lineage.parent),
        *((f"environment.{pair.name}", pair.value) for pair in lineage.environment),
    ]  # fmt: skip
    return [(key, value) for key, value in pairs if value]


def _upload(client: MlflowClient, version: ModelVersion, run_id: str, location: str) -> None:
    """Parameters, metrics and files; then the run is told to be finished."""
    parameters: list[Plain] = [
        {"key": pair.name, "value": pair.value[:MOST_VALUE]} for pair in version.lineage.parameters
    ]
    at_ms = round(version.created_s * 1000)
    metrics: list[Plain] = [
        {"key": metric.name, "value": metric.value, "timestamp": at_ms, "step": 0} for metric in version.metrics
    ]
    client.post("mlflow/runs/log-batch", {"run_id": run_id, "metrics": metrics})
    for start in range(0, len(parameters), MOST_PARAMS):
        client.post("mlflow/runs/log-batch", {"run_id": run_id, "params": parameters[start : start + MOST_PARAMS]})
    for file in version.bundle.files:
        client.upload(f"{location}/{file.path}", version.path / file.path)
    for name in (CARD, DESCRIPTION):
        if (version.path / name).is_file():
            client.upload(f"{location}/{name}", version.path / name)
    with tempfile.TemporaryDirectory(prefix="gpuyard-mirror-") as folder:
        described = Path(folder) / MLMODEL
        described.write_text(_mlmodel(version.bundle, run_id), encoding="utf-8")
        client.upload(f"{location}/{MLMODEL}", described)
    client.post("mlflow/runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": round(time.time() * 1000)})


def _mlmodel(bundle: Bundle, run_id: str) -> str:
    """MLflow's description of the files: its ONNX flavour, for what has one."""
    lines = [f"artifact_path: {FOLDER}", f"run_id: {run_id}", "flavors:"]
    if any(file.path == ONNX for file in bundle.files):
        lines += [
            "  onnx:", f"    data: {ONNX}", "    onnx_version: '1'", "    providers: [CPUExecutionProvider]",
            "  python_function:", "    loader_module: mlflow.onnx", f"    data: {ONNX}",
        ]  # fmt: skip
    else:
        lines[-1] = "flavors: {}"
    return "\n".join(lines) + "\n"


def _version(client: MlflowClient, version: ModelVersion, run_id: str, location: str) -> tuple[int, str]:
    """Makes the version of the registered model."""
    tags: list[Plain] = [{"key": key, "value": value[:MOST_TAG]} for key, value in _facts(version)]
    body: dict[str, Plain] = {
        "name": version.name, "source": location, "run_id": run_id, "tags": tags,
        "description": f"{version.reference} of gpuyard; see {CARD} among its artifacts",
    }  # fmt: skip
    made = client.post("mlflow/model-versions/create", body)["model_version"]
    assert isinstance(made, dict)
    return int(str(made["version"])), run_id


def _wanted(client: MlflowClient, wanted: Reference) -> dict[str, Plain]:
    """The version of the server that is asked for; without number or alias, its champion, else the newest."""
    if wanted.version is not None:
        found = client.get("mlflow/model-versions/get", name=wanted.name, version=str(wanted.version))["model_version"]
        assert isinstance(found, dict)
        return found
    if wanted.alias != LATEST:
        try:
            alias = wanted.alias or "champion"
            found = client.get("mlflow/registered-models/alias", name=wanted.name, alias=alias)["model_version"]
            assert isinstance(found, dict)
            return found
        except MlflowError:
            if wanted.alias:
                raise
    query = {"filter": f"name='{wanted.name}'", "max_results": "200"}
    every = list(client.search("mlflow/model-versions/search", "model_versions", query))
    if not every:
        raise InputError.one(f"{client.uri}: {wanted.name}", "no such model", "see the server's page of models")
    return max(every, key=lambda item: int(str(item["version"])))
