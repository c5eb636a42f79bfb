"""Engines by name. To add one, add a folder and a line here.

The loaders import the engines, so that `jobs/spec.py` can read the names from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuyard.jobs.spec import EngineSpec
    from gpuyard.jobs.task import Engine


def _local(spec: EngineSpec) -> Engine:
    from gpuyard.jobs.engines.local.local_engine import LocalEngine

    return LocalEngine(spec=spec)


def _ray(spec: EngineSpec) -> Engine:
    from gpuyard.jobs.engines.ray.ray_engine import RayEngine

    return RayEngine(spec=spec)


def _slurm(spec: EngineSpec) -> Engine:
    from gpuyard.jobs.engines.slurm.slurm_engine import SlurmEngine

    return SlurmEngine(spec=spec)


def _kubernetes(spec: EngineSpec) -> Engine:
    from gpuyard.jobs.engines.kubernetes.kubernetes_engine import KubernetesEngine

    return KubernetesEngine(spec=spec)


ENGINES: Mapping[str, Callable[[EngineSpec], Engine]] = {
    "local": _local,
    "ray": _ray,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
}


def open_engine(spec: EngineSpec) -> Engine:
    """Return the engine that the spec describes, without contacting it."""
    from gpuyard.jobs.spec import check_spec

    check_spec(spec)
    return ENGINES[spec.name](spec)
