"""Monitoring of served models over all workers: input drift, and how shadows compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuyard.serving.drift import ModelDrift, drift_of, sum_drift
from gpuyard.serving.model_slot import ModelSlot
from gpuyard.serving.shadow import ShadowCounts, sum_shadows
from gpuyard.serving.version import Version
from gpuyard.serving.worker_board import WorkerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What a server has seen of its models' inputs and of their shadows."""

    drift: tuple[ModelDrift, ...] = ()
    shadows: tuple[ShadowCounts, ...] = ()
    without_profile: tuple[str, ...] = ()  # NAME/VERSION whose bundle has no training profile


def monitoring_of(slots: Iterable[ModelSlot], reports: Iterable[WorkerReport]) -> Monitoring:
    """Return the sum over the reports of all workers, for the versions that are served now."""
    versions = [
        version for slot in slots for version in slot.versions() if isinstance(version, Version)
    ]
    workers = tuple(reports)
    counts = sum_drift(item for report in workers for item in report.drift)
    return Monitoring(
        drift=tuple(
            drift_of(version.drift.profile, counts[version.label])
            for version in versions
            if version.drift is not None and version.label in counts
        ),
        shadows=sum_shadows(item for report in workers for item in report.shadows),
        without_profile=tuple(
            "/".join(version.label) for version in versions if version.drift is None
        ),
    )


def monitoring_metrics(monitoring: Monitoring) -> str:
    """Render the figures in the Prometheus text format."""
    return "".join(f"{line}\n" for line in (*_drift(monitoring), *_shadows(monitoring)))


def _drift(monitoring: Monitoring) -> Iterator[str]:
    families = (
        ("gpuyard_drift_psi", "Population stability index of a feature against training."),
        ("gpuyard_drift_ks", "Kolmogorov-Smirnov statistic of a feature against training."),
    )
    for number, (name, text) in enumerate(families if monitoring.drift else ()):
        yield from (f"# HELP {name} {text}", f"# TYPE {name} gauge")
        for item in monitoring.drift:
            for row in item.features:
                labels = f'{_version(item.model, item.version)},feature="{_escaped(row.feature)}"'
                yield f"{name}{{{labels}}} {(row.psi, row.ks)[number]:.6g}"
    if monitoring.drift:
        yield "# HELP gpuyard_drift_rows Recent rows that drift is computed from."
        yield "# TYPE gpuyard_drift_rows gauge"
        for item in monitoring.drift:
            yield f"gpuyard_drift_rows{{{_version(item.model, item.version)}}} {item.rows}"


def _shadows(monitoring: Monitoring) -> Iterator[str]:
    families = (
        ("requests", "Requests that were copied to a shadow."),
        ("failures", "Copies on which the shadow failed."),
        ("dropped", "Copies that were dropped because the shadow was too slow."),
        ("rows", "Rows whose outputs were compared."),
        ("rows_different", "Rows to which the shadow gives another output."),
    )
    for field, text in families if monitoring.shadows else ():
        name = f"gpuyard_shadow_{field}_total"
        yield from (f"# HELP {name} {text}", f"# TYPE {name} counter")
        for item in monitoring.shadows:
            yield f"{name}{{{_version(item.model, item.version)}}} {getattr(item, field)}"


def _version(model: str, version: str) -> str:
    return f'model="{_escaped(model)}",version="{_escaped(version)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
