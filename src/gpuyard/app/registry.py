"""`gpuyard models`: versions, aliases and cards; import from and export to folders and MLflow."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import CARD
from gpuyard.registry.mlflow import Mirrored, import_version, mirror_version
from gpuyard.registry.mlflow_client import connect_mlflow
from gpuyard.registry.registry import AliasChange, ModelVersion, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One version, whether its files match their checksums, and the alias history."""

    version: ModelVersion
    changes: tuple[AliasChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDifference:
    """One difference of two versions; for a metric, whether the intervals overlap."""

    what: str
    first: str
    second: str
    note: str = ""


def list_models(home: Home, name: str = "") -> tuple[ModelVersion, ...]:
    """List every version of every model, or of one."""
    registry = Registry(home=home)
    names = (name,) if name else registry.names()
    return tuple(version for item in names for version in registry.versions(item))


def show_model(home: Home, reference: str) -> Detail:
    """One version in full, with its files verified."""
    registry = Registry(home=home)
    version = registry.get(reference)
    return Detail(version=version, changes=registry.changes(version.name))


def promote(home: Home, name: str, version: int, alias: str) -> ModelVersion:
    """Point an alias at a version after verifying its files."""
    registry = Registry(home=home)
    registry.get(f"{name}/{version}")
    return registry.alias(name, alias, version)


def compare_versions(home: Home, first: str, second: str) -> tuple[VersionDifference, ...]:
    """Compare two versions: metrics, lineage, parameters, environment, size."""
    one, other = (Registry(home=home).get(reference, verify=False) for reference in (first, second))
    differences = []
    measured = [{metric.name: metric for metric in version.metrics} for version in (one, other)]
    for name in dict.fromkeys((*measured[0], *measured[1])):
        left, right = measured[0].get(name), measured[1].get(name)
        note = ""
        if left and right and None not in (left.low, left.high, right.low, right.high):
            assert left.low is not None
            assert left.high is not None
            assert right.low is not None
            assert right.high is not None
            note = (
                "intervals do not overlap"
                if left.high < right.low or right.high < left.low
                else "intervals overlap"
            )
        texts = [f"{metric.value:.6g}" if metric else "–" for metric in (left, right)]
        differences.append(VersionDifference(what=name, first=texts[0], second=texts[1], note=note))
    facts = [_facts(version) for version in (one, other)]
    for name in dict.fromkeys((*facts[0], *facts[1])):
        texts = [fact.get(name, "–") for fact in facts]
        if texts[0] != texts[1]:
            differences.append(VersionDifference(what=name, first=texts[0], second=texts[1]))
    return tuple(differences)


def _facts(version: ModelVersion) -> dict[str, str]:
    bundle, lineage = version.bundle, version.lineage
    facts = {
        "trainer": bundle.trainer,
        "framework": bundle.framework,
        "parameters": str(bundle.parameters_count),
        "size in bytes": str(bundle.size_bytes),
        "classes": ", ".join(bundle.classes),
        "data": lineage.data,
        "transform": lineage.transform,
        "code": lineage.code,
        "run": lineage.run,
        "digest": version.digest[:16],
    }
    facts |= {pair.name: pair.value for pair in lineage.parameters}
    return facts | {f"environment {pair.name}": pair.value for pair in lineage.environment}


def card_of(home: Home, reference: str) -> str:
    """The model card of a version."""
    version = Registry(home=home).get(reference, verify=False)
    try:
        return (version.path / CARD).read_text(encoding="utf-8")
    except OSError as error:
        raise ExternalError(
            str(version.path / CARD), f"cannot be read: {error.strerror}", "register it again"
        ) from error


def export_model(home: Home, reference: str, out: Path) -> ModelVersion:
    """Copy a version's bundle into a new folder."""
    version = Registry(home=home).get(reference)
    if out.exists():
        raise InputError.one(str(out), "already exists", "name a new folder")
    shutil.copytree(version.path, out)
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxImport:
    """How an ONNX file becomes a model: its classes, and code before and after it."""

    classes: tuple[str, ...] = ()
    code: Path | None = None


def import_model(
    home: Home, source: str, *, name: str = "", mlflow: str = "", onnx: OnnxImport | None = None
) -> ModelVersion:
    """Register a bundle folder, an ONNX file or a model of an MLflow server as a new version."""
    registry = Registry(home=home)
    if mlflow:
        return import_version(connect_mlflow(mlflow), registry, source, name)
    if not name:
        raise InputError.one("models import", "the model has no name", "add --name NAME")
    if onnx is None:
        return registry.register(name, Path(source))
    from gpuyard.app.onnx_import import write_onnx_bundle  # needs gpuyard[run]

    with tempfile.TemporaryDirectory(prefix="gpuyard-import-") as folder:
        write_onnx_bundle(Path(folder), Path(source), onnx)
        return registry.register(name, Path(folder))


def mirror_models(home: Home, uri: str, name: str = "") -> tuple[Mirrored, ...]:
    """Copy versions to an MLflow server; existing ones stay."""
    client = connect_mlflow(uri)
    registry = Registry(home=home)
    return tuple(
        mirror_version(client, registry.get(item.reference)) for item in list_models(home, name)
    )


def delete_version(home: Home, name: str, version: int) -> None:
    """Delete a version that no alias points to."""
    Registry(home=home).delete(name, version)


def remove_abandoned_files(home: Home) -> tuple[str, ...]:
    """Remove files left by killed processes; return their paths."""
    return Registry(home=home).collect()
