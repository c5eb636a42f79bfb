"""The engines, by name. Adding one is a folder and a line here."""

from collections.abc import Callable, Mapping

from gpuyard.jobs.engines.kubernetes import KubernetesEngine
from gpuyard.jobs.engines.local import LocalEngine
from gpuyard.jobs.engines.ray import RayEngine
from gpuyard.jobs.engines.slurm import SlurmEngine
from gpuyard.jobs.spec import EngineSpec, check_spec
from gpuyard.jobs.task import Engine

__all__ = ["ENGINES", "open_engine"]

ENGINES: Mapping[str, Callable[[EngineSpec], Engine]] = {
    "local": lambda spec: LocalEngine(spec=spec),
    "ray": lambda spec: RayEngine(spec=spec),
    "slurm": lambda spec: SlurmEngine(spec=spec),
    "kubernetes": lambda spec: KubernetesEngine(spec=spec),
}


def open_engine(spec: EngineSpec) -> Engine:
    """The engine that the section describes; nothing is contacted yet."""
    check_spec(spec)
    return ENGINES[spec.name](spec)
