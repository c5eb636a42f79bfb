"""The stages of a workload file: every section of `pipeline` decoded by the room that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from gpuyard.app.bus import BusProbe
from gpuyard.datasets import DataSpec
from gpuyard.datasets.spec import check_spec as check_data
from gpuyard.document import AtLeast, Doc, Document, Keys, Mapping, Node, decode, read_text, read_yaml
from gpuyard.errors import InputError, Problem, nearest, one_of
from gpuyard.jobs import EngineSpec
from gpuyard.learn import TrainSpec, trainer_of
from gpuyard.learn.evaluate import EvaluateSpec
from gpuyard.learn.evaluate.measures import MEASURES
from gpuyard.learn.evaluate.spec import check_evaluate
from gpuyard.learn.select import SelectSpec
from gpuyard.learn.select.space import read_candidates
from gpuyard.serving import DeploySpec
from gpuyard.units import DURATION

__all__ = ["STAGES", "RunSpec", "Stages", "read_stages"]

STAGES = ("data", "train", "evaluate", "select", "register", "deploy")
T = TypeVar("T")


_HERE = EngineSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """How the stages are run."""

    engine: Annotated[EngineSpec, Doc("what starts the stages: local, ray, slurm or kubernetes")] = _HERE
    nodes: Annotated[int, AtLeast(1), Doc("machines that train together")] = 1
    processes: Annotated[int, AtLeast(1), Doc("processes of the training on each machine")] = 1
    chips: Annotated[int, AtLeast(0), Doc("accelerators of each process")] = 0
    retries: Annotated[int, AtLeast(0), Doc("further attempts of a stage whose process fails or is lost")] = 2
    time_limit_s: Annotated[float | None, DURATION, Doc("of each stage, with its retries")] = None
    probe: Annotated[
        BusProbe | None, Doc("measure the network first, and refuse to train over one that is too slow")
    ] = None


_PLAIN = RunSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What is to be run; a stage that is None is left out."""

    data: DataSpec | None = None
    train: TrainSpec | None = None
    evaluate: EvaluateSpec | None = None
    select: SelectSpec | None = None
    deploy: DeploySpec | None = None
    run: RunSpec = _PLAIN

    @property
    def names(self) -> tuple[str, ...]:
        """The stages that have something to do, in their order; what is trained is also registered."""
        learns = self.train is not None or self.select is not None
        wanted = {"register": learns, "evaluate": self.evaluate is not None and self.train is not None}
        return tuple(name for name in STAGES if wanted.get(name, getattr(self, name, None) is not None))


def read_stages(path: Path) -> Stages:
    """The stages that a workload file describes; InputError with every problem of every section."""
    document = read_yaml(read_text(path), str(path))
    root = document.root
    pipeline = root.get("pipeline") if isinstance(root, Mapping) else None
    if not isinstance(pipeline, Mapping):
        fix = "add pipeline: with data, train, evaluate, deploy"
        raise InputError.one(str(path), "there is no pipeline to run", fix)
    problems: list[Problem] = []
    stages = Stages(
        data=_section(pipeline, "data", DataSpec, _data, problems),
        train=_section(pipeline, "train", TrainSpec, _train, problems),
        evaluate=_section(pipeline, "evaluate", EvaluateSpec, _evaluate, problems),
        select=_section(pipeline, "select", SelectSpec, _select, problems),
        deploy=_section(pipeline, "deploy", DeploySpec, None, problems),
        run=_section(pipeline, "run", RunSpec, None, problems) or RunSpec(),
    )
    if problems:
        raise InputError(problems)
    if missing := list(_missing(stages, document)):
        raise InputError(missing)
    return stages


def _section(
    pipeline: Mapping, name: str, record: type[T], check: Callable[[T, str], None] | None, problems: list[Problem]
) -> T | None:
    """One section; what is wrong with it goes to `problems`."""
    node: Node | None = pipeline.get(name)
    if node is None:
        return None
    try:
        value = decode(node, record, Keys.BARE)
        if check is not None:
            check(value, str(node.place))
    except InputError as error:
        problems += error.problems
        return None
    return value


def _data(spec: DataSpec, where: str) -> None:
    """What the data room asks of its section."""
    check_data(spec, where)


def _train(spec: TrainSpec, where: str) -> None:
    """Exactly one trainer."""
    trainer_of(spec, where)


def _evaluate(spec: EvaluateSpec, where: str) -> None:
    """What the evaluation asks of its section."""
    check_evaluate(spec, where)
    _known(spec.metrics, f"{where}.metrics")


def _select(spec: SelectSpec, where: str) -> None:
    """Candidates that can be trained, and a metric that can be computed."""
    read_candidates(spec.candidates, f"{where}.candidates")
    _known((spec.metric,), f"{where}.metric")


def _known(metrics: Sequence[str], where: str) -> None:
    """InputError with the names that no metric has: said before anything is trained."""
    known = sorted({measure.name for measure in MEASURES})
    wrong = [name for name in metrics if name not in known]
    meant = [(name, nearest(name, known)) for name in wrong]
    if wrong:
        raise InputError(
            Problem(where=where, what=f'no metric named "{name}"', fix=f"use {found or one_of(known, 40)}")
            for name, found in meant
        )


def _missing(stages: Stages, document: Document) -> Iterator[Problem]:
    """Stages that need another."""
    own = stages.train is not None and trainer_of(stages.train) == "command"
    for name in ("train", "select"):
        if getattr(stages, name) is not None and stages.data is None and not own:
            place = document.place(f"pipeline.{name}")
            yield place.problem("there is no data to learn from", "add data: {source: …, label: …} beside it")
    if stages.evaluate is not None and stages.train is None and stages.select is None:
        place = document.place("pipeline.evaluate")
        yield place.problem("there is nothing to evaluate", "add train: with a trainer, or select: with candidates")
    if stages.deploy is not None and not stages.deploy.model and stages.train is None and stages.select is None:
        place = document.place("pipeline.deploy")
        yield place.problem("there is no model to serve", "add model: NAME@champion, or a train: section")
