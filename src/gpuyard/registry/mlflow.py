"""Mirror model versions to an MLflow tracking server, and import them back."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError, InputError
from gpuyard.http import HttpError
from gpuyard.registry.bundle import CARD, DESCRIPTION, ONNX, ModelBundle, read_bundle
from gpuyard.registry.mlflow_client import (
    ALREADY_EXISTS,
    MAX_PARAM_LENGTH,
    MAX_PARAMS,
    MAX_TAG_LENGTH,
    MlflowClient,
    error_code,
    experiment_id,
)
from gpuyard.registry.names import CHAMPION, LATEST, Reference, read_reference
from gpuyard.registry.registry import ModelVersion, Registry

EXPERIMENT = "gpuyard"
FOLDER = "model"  # of a run's artifacts
MLMODEL = "MLmodel"  # MLflow's own description, so that its tools can load the model
DIGEST = "gpuyard.digest"
NUMBER = "gpuyard.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """A version and its number on the server."""

    reference: str
    server_version: int
    run_id: str
    fresh: bool  # uploaded now; False: it already existed
    aliases: tuple[str, ...]


def mirror_version(client: MlflowClient, version: ModelVersion) -> Mirrored:
    """Upload a version once and set its aliases; an interrupted upload is resumed."""
    _create_model(client, version.name)
    existing = _existing_version(client, version)
    fresh = existing is None
    if existing is None:
        run_id, location = _create_or_resume_run(client, version)
        _upload(client, version, run_id, location)
        existing = _create_version(client, version, run_id, location)
    number, run_id = existing
    for alias in version.aliases:
        client.post(
            "mlflow/registered-models/alias",
            {"name": version.name, "alias": alias, "version": str(number)},
        )
    return Mirrored(
        reference=version.reference,
        server_version=number,
        run_id=run_id,
        fresh=fresh,
        aliases=version.aliases,
    )


def import_version(
    client: MlflowClient, registry: Registry, reference: str, name: str = ""
) -> ModelVersion:
    """Register a bundle from the server, after downloading its files and checking their hashes."""
    parsed = read_reference(reference)
    remote = _find_version(client, parsed)
    source, number = str(remote["source"]), str(remote["version"])
    with tempfile.TemporaryDirectory(prefix="gpuyard-import-") as folder:
        bundle_folder = Path(folder) / "bundle"
        paths = [path for path in client.files(source) if path != MLMODEL]
        if DESCRIPTION not in paths:
            raise InputError.one(
                f"{client.uri}: {parsed.name}/{number}",
                f"has no {DESCRIPTION}: it was not exported by gpuyard",
                "import a model that was uploaded by `gpuyard models mirror`",
            )
        for path in paths:
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise ExternalError(
                    client.uri, f'file "{path}" is outside the bundle', "do not trust this server"
                )
            client.download(f"{source.rstrip('/')}/{path}", bundle_folder / path)
        bundle = read_bundle(bundle_folder)
        parent = f"{client.uri} {parsed.name}/{number}"
        lineage = dataclasses.replace(bundle.lineage, parent=parent)
        return registry.register(name or parsed.name, bundle_folder, lineage=lineage)


def _create_model(client: MlflowClient, name: str) -> None:
    try:
        client.post("mlflow/registered-models/create", {"name": name})
    except HttpError as error:
        if error_code(error) != ALREADY_EXISTS:
            raise


def _existing_version(client: MlflowClient, version: ModelVersion) -> tuple[int, str] | None:
    query = {"filter": f"name='{version.name}'", "max_results": "200"}
    for item in client.search("mlflow/model-versions/search", "model_versions", query):
        if _tags(item).get(DIGEST) == version.digest:
            return int(str(item["version"])), str(item.get("run_id") or "")
    return None


def _tags(item: dict[str, Plain]) -> dict[str, str]:
    tags = item.get("tags") or []
    assert isinstance(tags, list)
    return {str(tag["key"]): str(tag.get("value", "")) for tag in tags if isinstance(tag, dict)}


def _create_or_resume_run(client: MlflowClient, version: ModelVersion) -> tuple[str, str]:
    experiment = experiment_id(client, EXPERIMENT)
    query = {"experiment_id": experiment, "filter": f"tags.`{DIGEST}` = '{version.digest}'"}
    interrupted: Sequence[dict[str, Plain]] = list(
        client.search("mlflow/runs/search", "runs", query, post=True)
    )
    if interrupted:
        run = interrupted[0]
    else:
        body: dict[str, Plain] = {
            "experiment_id": experiment,
            "run_name": version.reference,
            "start_time": round(version.created_s * 1000),
            "tags": [
                {"key": key, "value": value[:MAX_TAG_LENGTH]} for key, value in _tag_pairs(version)
            ],
        }
        created = client.post("mlflow/runs/create", body)["run"]
        assert isinstance(created, dict)
        run = created
    info = run["info"]
    assert isinstance(info, dict)
    return str(info["run_id"]), f"{str(info['artifact_uri']).rstrip('/')}/{FOLDER}"


def _tag_pairs(version: ModelVersion) -> list[tuple[str, str]]:
    lineage = version.lineage
    pairs = [
        (DIGEST, version.digest),
        (NUMBER, str(version.version)),
        ("gpuyard.model", version.name),
        ("gpuyard.kind", version.bundle.kind),
        ("gpuyard.trainer", version.bundle.trainer),
        ("gpuyard.data", lineage.data),
        ("gpuyard.transform", lineage.transform),
        ("gpuyard.code", lineage.code),
        ("gpuyard.run", lineage.run),
        ("gpuyard.parent", lineage.parent),
        *((f"environment.{tag.name}", tag.value) for tag in lineage.environment),
    ]
    return [(key, value) for key, value in pairs if value]


def _upload(client: MlflowClient, version: ModelVersion, run_id: str, location: str) -> None:
    parameters: list[Plain] = [
        {"key": tag.name, "value": tag.value[:MAX_PARAM_LENGTH]}
        for tag in version.lineage.parameters
    ]
    at_ms = round(version.created_s * 1000)
    metrics: list[Plain] = [
        {"key": metric.name, "value": metric.value, "timestamp": at_ms, "step": 0}
        for metric in version.metrics
    ]
    client.post("mlflow/runs/log-batch", {"run_id": run_id, "metrics": metrics})
    for start in range(0, len(parameters), MAX_PARAMS):
        client.post(
            "mlflow/runs/log-batch",
            {"run_id": run_id, "params": parameters[start : start + MAX_PARAMS]},
        )
    for file in version.bundle.files:
        client.upload(f"{location}/{file.path}", version.path / file.path)
    for name in (CARD, DESCRIPTION):
        if (version.path / name).is_file():
            client.upload(f"{location}/{name}", version.path / name)
    with tempfile.TemporaryDirectory(prefix="gpuyard-mirror-") as folder:
        description = Path(folder) / MLMODEL
        description.write_text(_mlmodel(version.bundle, run_id), encoding="utf-8")
        client.upload(f"{location}/{MLMODEL}", description)
    client.post(
        "mlflow/runs/update",
        {"run_id": run_id, "status": "FINISHED", "end_time": round(time.time() * 1000)},
    )


def _mlmodel(bundle: ModelBundle, run_id: str) -> str:
    # MLflow's ONNX flavour, where the bundle has an ONNX file.
    lines = [f"artifact_path: {FOLDER}", f"run_id: {run_id}", "flavors:"]
    if any(file.path == ONNX for file in bundle.files):
        lines += [
            "  onnx:",
            f"    data: {ONNX}",
            "    onnx_version: '1'",
            "    providers: [CPUExecutionProvider]",
            "  python_function:",
            "    loader_module: mlflow.onnx",
            f"    data: {ONNX}",
        ]
    else:
        lines[-1] = "flavors: {}"
    return "\n".join(lines) + "\n"


def _create_version(
    client: MlflowClient, version: ModelVersion, run_id: str, location: str
) -> tuple[int, str]:
    tags: list[Plain] = [
        {"key": key, "value": value[:MAX_TAG_LENGTH]} for key, value in _tag_pairs(version)
    ]
    body: dict[str, Plain] = {
        "name": version.name,
        "source": location,
        "run_id": run_id,
        "tags": tags,
        "description": f"{version.reference} of gpuyard; see {CARD} among its artifacts",
    }
    created = client.post("mlflow/model-versions/create", body)["model_version"]
    assert isinstance(created, dict)
    return int(str(created["version"])), run_id


def _find_version(client: MlflowClient, reference: Reference) -> dict[str, Plain]:
    if reference.version is not None:
        remote = client.get(
            "mlflow/model-versions/get", name=reference.name, version=str(reference.version)
        )["model_version"]
        assert isinstance(remote, dict)
        return remote
    if reference.alias != LATEST:
        try:
            alias = reference.alias or CHAMPION
            remote = client.get("mlflow/registered-models/alias", name=reference.name, alias=alias)[
                "model_version"
            ]
            assert isinstance(remote, dict)
            return remote
        except HttpError:
            if reference.alias:
                raise
    query = {"filter": f"name='{reference.name}'", "max_results": "200"}
    versions = list(client.search("mlflow/model-versions/search", "model_versions", query))
    if not versions:
        raise InputError.one(
            f"{client.uri}: {reference.name}", "no such model", "see the models page of the server"
        )
    return max(versions, key=lambda item: int(str(item["version"])))
