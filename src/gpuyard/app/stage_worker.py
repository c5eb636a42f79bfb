"""One stage of a run as a separate process, so that any engine can start and restart it.

    python -m gpuyard.app.stage_worker RUN_FOLDER STAGE

A stage reads the run's workload and the results of earlier stages, and writes its own result.json.
Exit codes: 2 wrong input, 3 infeasible, 4 external error.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from gpuyard.app.evaluate import TrainedModel, evaluate_file, evaluate_model
from gpuyard.app.select import select_file
from gpuyard.app.stages import Stages, read_stages, train_in
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.engines.ray import RayDataEngine
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import load_prepared
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.document.field_types import Doc
from gpuyard.errors import (
    EXIT_EXTERNAL_ERROR,
    EXIT_INFEASIBLE,
    EXIT_WRONG_INPUT,
    ExternalError,
    Infeasible,
    InputError,
    external_error_from,
)
from gpuyard.home import PRIVATE_UMASK, Home, write_atomic
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.fit import fit
from gpuyard.learn.select.selection import Selection
from gpuyard.learn.task import TrainTask, write_task
from gpuyard.units import DURATION, show

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataResult:
    """Result of the data stage."""

    folder: str
    version: str
    rows_in_count: int
    rows_out_count: int
    dropped_count: int
    quarantined_count: int
    features: tuple[str, ...]
    splits: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateResult:
    """Result of the evaluate stage: cross-validation, and the test split where there is one."""

    card: Scorecard
    test: Scorecard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResult:
    """Result of the select stage, and the bundle trained from the winner."""

    selection: Selection
    bundle: str
    test: Scorecard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    file: Annotated[
        str, Doc("the workload file that was run; paths in it are relative to its folder")
    ]
    home: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The folder of one run."""

    path: Path
    base: Path
    home: Home
    name: str

    @property
    def workload(self) -> Path:
        return self.path / "workload.yaml"

    def stage(self, name: str) -> Path:
        return self.path / name

    def result(self, name: str) -> Path:
        return self.stage(name) / "result.json"

    def infeasible(self, name: str) -> Path:
        """File with the binding constraint of an infeasible stage."""
        return self.stage(name) / "infeasible.json"

    @property
    def stages(self) -> Stages:
        return read_stages(self.workload)


def make_run(folder: Path, file: Path, home: Home, name: str) -> RunFolder:
    """Create a run's folder with its workload."""
    saved = _Saved(file=str(file.resolve()), home=str(home.path.resolve()), name=name)
    write_atomic(folder / "workload.yaml", file.read_bytes())
    write_atomic(folder / "run.json", dump_json(saved))
    return open_run(folder)


def open_run(folder: Path) -> RunFolder:
    """Open the folder of a run."""
    path = folder / "run.json"
    if not path.exists():
        fix = "start a new run with `gpuyard run` or `gpuyard up`"
        raise InputError.one(str(folder), "is not the folder of a run, or is incomplete", fix)
    saved = load_json_file(path, _Saved)
    home = Home(path=Path(saved.home))
    return RunFolder(path=folder, base=Path(saved.file).parent, home=home, name=saved.name)


def prepared_data_folder(run: RunFolder, spec: DataSpec) -> Path:
    """Folder of the prepared data, named by its spec so that equal pipelines share it."""
    digest = hashlib.sha256(f"{run.base}{dump_json(spec)}".encode()).hexdigest()[:12]
    return run.home.data / digest


def training_task(run: RunFolder) -> Path:
    """Write the task of the train stage and return its folder."""
    stages = run.stages
    assert stages.train is not None
    data = "" if stages.data is None else load_result(run, "data", DataResult).folder
    folder, train = run.stage("train"), train_in(stages.train, run.base)
    return write_task(TrainTask(train=train, data=data, out=str(folder), name=run.name))


def load_result(run: RunFolder, stage: str, record: type[T]) -> T:
    """Load the result of an earlier stage."""
    path = run.result(stage)
    if not path.exists():
        raise InputError.one(str(path), f"the {stage} stage has not been run", "gpuyard resume")
    return load_json_file(path, record)


def _data(run: RunFolder) -> DataResult:
    stages = run.stages
    assert stages.data is not None
    spec = stages.run.engine
    engine = (
        RayDataEngine() if spec.name == "ray" else LocalDataEngine()
    )  # the cluster that started this stage
    out = prepared_data_folder(run, stages.data)
    dataset = prepare(
        stages.data,
        base=run.base,
        out=out,
        engine=engine,
        on_progress=lambda done: _log(f"data: {done.name}, {done.rows_done:,} of {done.rows:,}"),
    )
    manifest = dataset.manifest
    _log(f"data: {manifest.rows_in:,} rows in, {manifest.rows_out:,} out, {out}")
    return DataResult(
        folder=str(dataset.folder),
        version=manifest.version,
        rows_in_count=manifest.rows_in,
        rows_out_count=manifest.rows_out,
        dropped_count=manifest.dropped,
        quarantined_count=manifest.quarantined,
        features=manifest.features,
        splits=tuple((split.name, split.rows) for split in manifest.splits),
    )


def _evaluate(run: RunFolder) -> EvaluateResult:
    data = Path(load_result(run, "data", DataResult).folder)
    bundle = run.stage("train") / "bundle"
    trained = TrainedModel(bundle=bundle, base=run.base)
    card = evaluate_file(
        run.workload,
        home=run.home,
        data=data,
        trained=trained,
        progress=lambda done, count: _log(f"evaluate: {done} of {count} folds"),
    ).card
    is_hold_out = len(card.folds) < 2  # then the card is that of the test split
    return EvaluateResult(card=card, test=None if is_hold_out else _on_test(run, data, bundle))


def _on_test(run: RunFolder, data: Path, bundle: Path) -> Scorecard | None:
    """Scores on the test split; None without one, or for a language model."""
    manifest = load_prepared(data).manifest
    if manifest.problem == "language" or not any(
        split.name == "test" and split.rows for split in manifest.splits
    ):
        return None
    return evaluate_model(run.workload, str(bundle), home=run.home, data=data).card


def _select(run: RunFolder) -> SelectResult | Infeasible:
    data = Path(load_result(run, "data", DataResult).folder)
    selection = select_file(
        run.workload,
        home=run.home,
        data=data,
        progress=lambda done, count: _log(f"select: {done} of {count} trials"),
    )
    if isinstance(selection, Infeasible):
        return selection
    folder = run.stage("select") / "winner"
    done = fit(TrainTask(train=selection.train, data=str(data), out=str(folder), name=run.name))
    assert done.bundle is not None
    return SelectResult(
        selection=selection, bundle=done.bundle, test=_on_test(run, data, Path(done.bundle))
    )


WORKERS: dict[str, Callable[[RunFolder], object]] = {
    "data": _data,
    "evaluate": _evaluate,
    "select": _select,
}


def run_stage(folder: Path, name: str) -> int:
    """Run one stage, write its result and return the exit code."""
    run = open_run(folder)
    run.infeasible(name).unlink(missing_ok=True)
    began = time.monotonic()
    _log(f"{name}: started")
    result = WORKERS[name](run)
    if isinstance(result, Infeasible):
        write_atomic(run.infeasible(name), dump_json(result))
        sys.stderr.write(f"{result}\n")
        return EXIT_INFEASIBLE
    write_atomic(run.result(name), dump_json(result))
    _log(f"{name}: done in {show(time.monotonic() - began, DURATION)}")
    return 0


def _log(text: str) -> None:
    """Write a line to the log of the stage, which `gpuyard logs` shows."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Entry point of the stage process."""
    try:
        return run_stage(Path(words[0]), words[1])
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_WRONG_INPUT
    except ExternalError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_EXTERNAL_ERROR
    except Exception as error:
        refused = external_error_from(error, words[0])  # a disk that is full, or gone
        if refused is None:
            raise
        sys.stderr.write(f"{refused}\n")
        return EXIT_EXTERNAL_ERROR


if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)
    sys.exit(main(sys.argv[1:]))
