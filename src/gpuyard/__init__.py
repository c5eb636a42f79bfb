"""gpuyard plans, verifies, deploys and runs GPU backends for AI.

    import gpuyard as gy

    plan = gy.plan(gy.pretraining("llama-3-70b", tokens="1T", sequence=8192, deadline="60d"))
    plan.best.step_time_s

Everything is imported when it is first used.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuyard.api.catalogs import catalog as catalog
    from gpuyard.api.deployments import provision as provision
    from gpuyard.api.fabrics import design_fabric as design_fabric
    from gpuyard.api.fabrics import simulate as simulate
    from gpuyard.api.fabrics import verify as verify
    from gpuyard.api.models import evaluate as evaluate
    from gpuyard.api.models import predict as predict
    from gpuyard.api.models import prepare as prepare
    from gpuyard.api.models import select as select
    from gpuyard.api.models import serve as serve
    from gpuyard.api.models import train as train
    from gpuyard.api.planning import plan as plan
    from gpuyard.api.workloads import finetuning as finetuning
    from gpuyard.api.workloads import graphics as graphics
    from gpuyard.api.workloads import hpc as hpc
    from gpuyard.api.workloads import inference as inference
    from gpuyard.api.workloads import pretraining as pretraining
    from gpuyard.api.workloads import read as read
    from gpuyard.errors import ExternalError as ExternalError
    from gpuyard.errors import InputError as InputError

__version__ = "0.1.0"

_EXPORTS = {
    "ExternalError": "errors", "InputError": "errors",
    "read": "api.workloads", "pretraining": "api.workloads", "finetuning": "api.workloads",
    "inference": "api.workloads", "graphics": "api.workloads", "hpc": "api.workloads",
    "plan": "api.planning", "provision": "api.deployments",
    "design_fabric": "api.fabrics", "verify": "api.fabrics", "simulate": "api.fabrics",
    "catalog": "api.catalogs",
    "prepare": "api.models", "train": "api.models", "evaluate": "api.models",
    "select": "api.models", "predict": "api.models", "serve": "api.models",
}  # fmt: skip
__all__ = ["__version__", *_EXPORTS]


class _Api(types.ModuleType):
    """The package as a module whose functions are imported on first use (PEP 562).

    `plan`, `simulate`, `provision` and `catalog` are also subpackages. The import system would
    bind a subpackage over the function of the same name; the functions stay, and subpackages are
    imported with `from gpuyard.plan.option import …`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _EXPORTS and isinstance(value, types.ModuleType):
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        module = _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module 'gpuyard' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"gpuyard.{module}"), name)
        super().__setattr__(name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Api
