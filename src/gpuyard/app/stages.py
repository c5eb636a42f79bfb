"""The pipeline of a workload file: each section decoded by its own package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

from gpuyard.app.bus_bandwidth import BusProbe
from gpuyard.datasets.data_kind import DataKind
from gpuyard.datasets.spec import DataSpec, data_kind
from gpuyard.datasets.spec import check_spec as check_data
from gpuyard.document.decode import decode
from gpuyard.document.field_types import AtLeast, Doc, Keys
from gpuyard.document.read import read_text, read_yaml
from gpuyard.document.tree import Document, Mapping, Node
from gpuyard.errors import InputError, Problem, choices_text, closest_match
from gpuyard.jobs.records import STAGES
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.tracking.spec import NO_TRACKING, TrackSpec, check_track
from gpuyard.learn.evaluate.metric_table import METRICS
from gpuyard.learn.evaluate.spec import EvaluateSpec, check_evaluate
from gpuyard.learn.select.space import read_candidates
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.spec import TRAINER_NAMES, TrainSpec, trainer_kinds, trainer_of
from gpuyard.serving.spec import DeploySpec
from gpuyard.units import DURATION

T = TypeVar("T")


_HERE = EngineSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """How the stages are run."""

    engine: Annotated[
        EngineSpec, Doc("what starts the stages: local, ray, slurm or kubernetes")
    ] = _HERE
    nodes: Annotated[int, AtLeast(1), Doc("machines that train together")] = 1
    processes: Annotated[int, AtLeast(1), Doc("processes of the training on each machine")] = 1
    chips: Annotated[int, AtLeast(0), Doc("accelerators of each process")] = 0
    retries: Annotated[
        int, AtLeast(0), Doc("further attempts of a stage whose process fails or is lost")
    ] = 2
    time_limit_s: Annotated[float | None, DURATION, Doc("of each stage, with its retries")] = None
    probe: Annotated[
        BusProbe | None,
        Doc("measure the network first, and refuse to train over one that is too slow"),
    ] = None


_PLAIN = RunSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages to run; None for one that is not in the pipeline."""

    data: DataSpec | None = None
    train: TrainSpec | None = None
    evaluate: EvaluateSpec | None = None
    select: SelectSpec | None = None
    deploy: DeploySpec | None = None
    run: RunSpec = _PLAIN
    track: TrackSpec = NO_TRACKING

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stages to run, in order; a trained model is also registered."""
        learns = self.train is not None or self.select is not None
        wanted = {
            "register": learns,
            "evaluate": self.evaluate is not None and self.train is not None,
        }
        return tuple(
            name for name in STAGES if wanted.get(name, getattr(self, name, None) is not None)
        )


def read_stages(path: Path) -> Stages:
    """Read the stages of a workload file; InputError with every problem of every section."""
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
        track=_section(pipeline, "track", TrackSpec, check_track, problems) or NO_TRACKING,
    )
    if problems:
        raise InputError(problems)
    if missing := [*_missing(stages, document), *_unsupported(stages, document)]:
        raise InputError(missing)
    return stages


def train_in(train: TrainSpec, base: Path) -> TrainSpec:
    """Return the section with files of the user's own command and base models from a folder."""
    name = trainer_of(train)
    settings = getattr(train, name)
    given = getattr(settings, "base", None)
    if given is not None and (base / given).exists():
        return replace(train, **{name: replace(settings, base=str((base / given).absolute()))})
    if train.command is None:
        return train
    words = tuple(
        str(path.absolute()) if (path := base / word).is_file() else word
        for word in train.command.run
    )
    return replace(train, command=replace(train.command, run=words))


def _section(
    pipeline: Mapping,
    name: str,
    record: type[T],
    check: Callable[[T, str], None] | None,
    problems: list[Problem],
) -> T | None:
    """Decode one section; its problems are appended to `problems`."""
    node: Node | None = pipeline.get(name)
    if node is None:
        return None
    try:
        value = decode(node, record, Keys.BARE)
        if check is not None:
            check(value, str(node.location))
    except InputError as error:
        problems += error.problems
        return None
    return value


def _data(spec: DataSpec, where: str) -> None:
    check_data(spec, where)


def _train(spec: TrainSpec, where: str) -> None:
    trainer_of(spec, where)


def _evaluate(spec: EvaluateSpec, where: str) -> None:
    check_evaluate(spec, where)
    _known(spec.metrics, f"{where}.metrics")


def _select(spec: SelectSpec, where: str) -> None:
    read_candidates(spec.candidates, f"{where}.candidates")
    _known((spec.metric,), f"{where}.metric")


def _known(metrics: Sequence[str], where: str) -> None:
    """Raise InputError for unknown metrics, before anything is trained."""
    known = sorted({measure.name for measure in METRICS})
    wrong = [name for name in metrics if name not in known]
    meant = [(name, closest_match(name, known)) for name in wrong]
    if wrong:
        raise InputError(
            Problem(
                where=where,
                what=f'no metric named "{name}"',
                fix=f"use {meant_name or choices_text(known, 40)}",
            )
            for name, meant_name in meant
        )


def _missing(stages: Stages, document: Document) -> Iterator[Problem]:
    own = stages.train is not None and trainer_of(stages.train) == "command"
    for name in ("train", "select"):
        if getattr(stages, name) is not None and stages.data is None and not own:
            place = document.location(f"pipeline.{name}")
            yield place.problem(
                "there is no data to learn from", "add data: {source: …, label: …} next to it"
            )
    if stages.evaluate is not None and stages.train is None and stages.select is None:
        place = document.location("pipeline.evaluate")
        yield place.problem(
            "there is nothing to evaluate", "add train: with a trainer, or select: with candidates"
        )
    if (
        stages.deploy is not None
        and not stages.deploy.model
        and stages.train is None
        and stages.select is None
    ):
        place = document.location("pipeline.deploy")
        yield place.problem(
            "there is no model to serve", "add model: NAME@champion, or a train: section"
        )


def _unsupported(stages: Stages, document: Document) -> Iterator[Problem]:
    """Yield trainers and evaluations that the data cannot feed, before anything runs."""
    own = stages.train is not None and stages.train.command is not None
    data = stages.data
    if data is None:
        if stages.evaluate is not None and own:
            yield document.location("pipeline.evaluate").problem(
                "there is no data to evaluate on", "add data: {source: …, label: …}"
            )
        return
    kind = data_kind(data)
    if stages.train is not None and not own:
        trainer = trainer_of(stages.train)
        if kind not in trainer_kinds(trainer):
            yield document.location("pipeline.train").problem(
                f"{trainer} cannot learn from {kind}", f"use {_trainers_text(kind)}"
            )
    yield from _unsupported_pairs(stages, data, document)
    if stages.select is not None:
        yield from _unsupported_candidates(stages.select, data, document)
    if stages.evaluate is not None:
        place = document.location("pipeline.evaluate")
        needs_test = kind != "table" or stages.evaluate.folds == 0
        if needs_test and not data.split.test_ratio:
            what = f"{kind} have no folds" if kind != "table" else "folds: 0 needs test rows"
            yield place.problem(f"{what}, and there is no test split", "add split: {test: 20%}")
        if kind == "images" and data.label is None:
            yield place.problem("the images have no label", "add label: class to data")
        if kind != "table" and stages.evaluate.slices:
            yield place.problem(f"{kind} have no columns to slice by", "leave out slices")
    validation = stages.train is not None and stages.train.validation_ratio
    if validation and data.split.validation_ratio:
        yield document.location("pipeline.train").problem(
            "validation rows are declared twice", "leave out train.validation, or split.validation"
        )


def _unsupported_pairs(stages: Stages, data: DataSpec, document: Document) -> Iterator[Problem]:
    """Yield stages that do not fit data with pairs of replies, or that need it."""
    pairs = any(step.preferences is not None for step in data.steps)
    train = stages.train
    learns_pairs = train is not None and train.lora is not None and train.lora.dpo is not None
    if learns_pairs and not pairs:
        yield document.location("pipeline.train").problem(
            "dpo learns from pairs of replies, and the data has none",
            "add preferences: {prompt: …, chosen: …, rejected: …} to data: steps",
        )
    if pairs and train is not None and train.command is None and not learns_pairs:
        yield document.location("pipeline.train").problem(
            "the data has pairs of replies", "use lora: {dpo: {}, …}"
        )
    for name in ("evaluate", "select"):
        if pairs and getattr(stages, name) is not None:
            yield document.location(f"pipeline.{name}").problem(
                "pairs of replies have no scores but those of the training",
                f"leave out {name}; train: {{validation: 10%}} reports reward accuracy",
            )


def _unsupported_candidates(
    select: SelectSpec, data: DataSpec, document: Document
) -> Iterator[Problem]:
    kind, place = data_kind(data), document.location("pipeline.select")
    trainers = {item.trainer for item in read_candidates(select.candidates)}
    if wrong := sorted(name for name in trainers if kind not in trainer_kinds(name)):
        yield place.problem(
            f"the candidates cannot learn from {kind}: {choices_text(wrong)}",
            f"list candidates: with {_trainers_text(kind)}",
        )
    elif kind != "table" and not data.split.validation_ratio:
        yield place.problem(
            f"{kind} have no folds, and there are no validation rows to choose by",
            "add split: {validation: 10%} to data",
        )


def _trainers_text(kind: DataKind) -> str:
    return choices_text([name for name in TRAINER_NAMES if kind in trainer_kinds(name)])
