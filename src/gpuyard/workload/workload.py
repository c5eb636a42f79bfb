"""The workload: the sections of one file, with the model's name resolved to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.models import Model, Transformer
from gpuyard.catalog.platforms import TaskName
from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.workload.key_rules import INFERENCE, TRAINING, Tasks
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.sections import Data, Graphics, Hpc, Pinned, Traffic, Training
from gpuyard.workload.where import Where

_MODEL = Tasks(used=(*TRAINING, *INFERENCE), needed=(*TRAINING, *INFERENCE))
_NO_REQUIREMENTS = Requirements()
_ANYWHERE = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Stages of a run; each stage defines its own keys."""

    data: Annotated[FrozenJson | None, Doc("read, clean, split and shard the data")] = None
    train: Annotated[FrozenJson | None, Doc("fit the model")] = None
    evaluate: Annotated[FrozenJson | None, Doc("measure the model")] = None
    select: Annotated[FrozenJson | None, Doc("choose between models")] = None
    deploy: Annotated[FrozenJson | None, Doc("serve the model")] = None
    run: Annotated[FrozenJson | None, Doc("execution engine, and number of training processes")] = (
        None
    )
    track: Annotated[FrozenJson | None, Doc("export the run to MLflow or TensorBoard")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sections:
    """Sections that a workload file and a workload share."""

    task: Annotated[TaskName, Doc("pretraining, finetuning, inference, graphics or hpc")]
    name: str | None = None
    model: object = None
    data: Annotated[
        Data | None,
        Tasks(used=(*TRAINING, "graphics", "hpc"), needed=TRAINING),
        Doc("the dataset"),
    ] = None
    training: Annotated[Training | None, Tasks(used=TRAINING), Doc("how the model is trained")] = (
        None
    )
    traffic: Annotated[
        Traffic | None,
        Tasks(used=INFERENCE, needed=INFERENCE),
        Doc("the requests that the model receives"),
    ] = None
    graphics: Annotated[
        Graphics | None, Tasks(used=("graphics",), needed=("graphics",)), Doc("the graphics work")
    ] = None
    hpc: Annotated[Hpc | None, Tasks(used=("hpc",), needed=("hpc",)), Doc("the HPC code")] = None
    requirements: Annotated[Requirements, Doc("limits that a plan must meet")] = _NO_REQUIREMENTS
    pinned: Annotated[
        Pinned | None,
        Tasks(used=(*TRAINING, *INFERENCE)),
        Doc("layout, formats, engine and counts that the plan keeps"),
    ] = None
    where: Annotated[Where, Doc("limits on where the work can run")] = _ANYWHERE
    pipeline: Annotated[Pipeline | None, Doc("the stages of the run, from data to deployment")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFile(_Sections):
    """One workload: a task, its input, its requirements, and where it can run."""

    name: Annotated[str | None, Doc("default: the name of the file")] = None
    model: Annotated[
        str | Transformer | None,
        _MODEL,
        Doc("a catalog model, a Hugging Face config.json or its folder (./my-model), or a shape"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(_Sections):
    """A workload file with its name and model resolved."""

    name: str
    model: Annotated[Model | None, _MODEL] = None
