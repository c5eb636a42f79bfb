"""The workload: what one file asks for, with the model's name replaced by the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog import Model, Task, Transformer
from gpuyard.document import Doc, Settings
from gpuyard.workload.keys import INFERENCE, TRAINING, Tasks
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.where import Where
from gpuyard.workload.work import Data, Graphics, Hpc, Traffic, Training

__all__ = ["Pipeline", "Workload", "WorkloadFile"]

_MODEL = Tasks(used=(*TRAINING, *INFERENCE), needed=(*TRAINING, *INFERENCE))
_NO_REQUIREMENTS, _ANYWHERE = Requirements(), Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of the run; the keys of a stage are its own."""

    data: Annotated[Settings | None, Doc("read, clean, split and shard the data")] = None
    train: Annotated[Settings | None, Doc("fit the model")] = None
    evaluate: Annotated[Settings | None, Doc("measure the model")] = None
    select: Annotated[Settings | None, Doc("choose between models")] = None
    deploy: Annotated[Settings | None, Doc("serve the model")] = None
    run: Annotated[Settings | None, Doc("the engine that runs the stages, and how many processes train")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sections:
    """What a file and the workload read from it have alike."""

    task: Annotated[Task, Doc("pretraining, finetuning, inference, graphics or hpc")]
    name: str | None = None
    model: object = None
    data: Annotated[
        Data | None,
        Tasks(used=(*TRAINING, "graphics", "hpc"), needed=TRAINING),
        Doc("the data set that the work reads"),
    ] = None
    training: Annotated[Training | None, Tasks(used=TRAINING), Doc("how the model is trained")] = None
    traffic: Annotated[
        Traffic | None, Tasks(used=INFERENCE, needed=INFERENCE), Doc("the requests that the model answers")
    ] = None
    graphics: Annotated[Graphics | None, Tasks(used=("graphics",), needed=("graphics",)), Doc("the pixels to make")] = (
        None
    )
    hpc: Annotated[Hpc | None, Tasks(used=("hpc",), needed=("hpc",)), Doc("the computation")] = None
    requirements: Annotated[Requirements, Doc("limits that a plan must keep")] = _NO_REQUIREMENTS
    where: Annotated[Where, Doc("limits on where the work may run")] = _ANYWHERE
    pipeline: Annotated[Pipeline | None, Doc("the stages of the run, from data to deployment")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFile(_Sections):
    """One workload: a task, what it works on, what the result has to meet, and where it may run."""

    name: Annotated[str | None, Doc("what to call it; default: the name of the file")] = None
    model: Annotated[
        str | Transformer | None,
        _MODEL,
        Doc("a model of the catalog, a Hugging Face config.json or its folder (./my-model), or a shape"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(_Sections):
    """What is wanted: the file's sections, its name, and the model itself."""

    name: str
    model: Annotated[Model | None, _MODEL] = None
