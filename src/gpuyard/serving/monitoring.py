"""Monitoring of served models over all workers: input drift, and how shadows compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuyard.registry.feature_profile import FeatureProfile
from gpuyard.serving.drift import DriftCounts, ModelDrift, drift_of, sum_drift
from gpuyard.serving.shadow_counts import ShadowCounts, sum_shadows


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What a server has seen of its models' inputs and of their shadows."""

    drift: tuple[ModelDrift, ...] = ()
    shadows: tuple[ShadowCounts, ...] = ()
    without_profile: tuple[str, ...] = ()  # NAME/VERSION whose bundle has no training profile


def monitoring_of(
    profiles: Mapping[tuple[str, str], FeatureProfile | None],
    drift: Iterable[DriftCounts],
    shadows: Iterable[ShadowCounts],
) -> Monitoring:
    """Return the sums over all workers, for the versions that are served now."""
    counts = sum_drift(drift)
    return Monitoring(
        drift=tuple(
            drift_of(profile, counts[label])
            for label, profile in profiles.items()
            if profile is not None and label in counts
        ),
        shadows=sum_shadows(shadows),
        without_profile=tuple(
            "/".join(label) for label, profile in profiles.items() if profile is None
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
