"""One stage of a run in a process of its own, so that any engine can start it and starting it again goes on.

    python -m gpuyard.app.stage RUN_FOLDER STAGE

A stage reads the run's workload and what the stages before it left in the run's folder, and leaves result.json in its
own. Exit codes are those of gpuyard: 2 wrong input, 3 infeasible, 4 the world refused.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

from gpuyard.app.evaluate import evaluate_file, evaluate_model
from gpuyard.app.pipeline import Stages, read_stages
from gpuyard.app.select import select_file
from gpuyard.datasets import DataSpec, LocalEngine, RayEngine, load_prepared, prepare
from gpuyard.document import Doc, dump_json, load_json
from gpuyard.errors import Infeasible, InputError, RefusedError, refusal
from gpuyard.home import Home, write_whole
from gpuyard.learn import TrainTask, fit, write_task
from gpuyard.learn.evaluate import Scorecard
from gpuyard.learn.select import Selection

__all__ = [
    "EXIT_INFEASIBLE", "EXIT_REFUSED", "EXIT_WRONG", "Evaluated", "Prepared", "RunFolder", "Selected", "load_result",
    "make_run", "open_run", "run_stage", "training_task",
]  # fmt: skip

T = TypeVar("T")
EXIT_WRONG, EXIT_INFEASIBLE, EXIT_REFUSED = 2, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the data stage made."""

    folder: str
    version: str
    rows_in_count: int
    rows_out_count: int
    dropped_count: int
    quarantined_count: int
    features: tuple[str, ...]
    splits: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What the evaluate stage found: by cross-validation, and on the test split where there is one."""

    card: Scorecard
    test: Scorecard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What the select stage found, and the bundle that was trained from the winner."""

    selection: Selection
    bundle: str
    test: Scorecard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """run.json."""

    file: Annotated[str, Doc("the workload file that was run; paths in it are relative to its folder")]
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
        """The workload as it was when the run began."""
        return self.path / "workload.yaml"

    def stage(self, name: str) -> Path:
        """The folder of a stage."""
        return self.path / name

    def result(self, name: str) -> Path:
        """What a stage found."""
        return self.stage(name) / "result.json"

    def infeasible(self, name: str) -> Path:
        """What binds, where nothing satisfied a stage."""
        return self.stage(name) / "infeasible.json"

    @property
    def stages(self) -> Stages:
        """What is to be run."""
        return read_stages(self.workload)


def make_run(folder: Path, file: Path, home: Home, name: str) -> RunFolder:
    """A new run's folder with its workload."""
    saved = _Saved(file=str(file.resolve()), home=str(home.path.resolve()), name=name)
    write_whole(folder / "workload.yaml", file.read_bytes())
    write_whole(folder / "run.json", dump_json(saved))
    return open_run(folder)


def open_run(folder: Path) -> RunFolder:
    """The run of a folder."""
    path = folder / "run.json"
    if not path.exists():
        fix = "start a new run with `gpuyard run` or `gpuyard up`"
        raise InputError.one(str(folder), "is not the folder of a run, or not a whole one", fix)
    saved = load_json(path.read_text(encoding="utf-8"), _Saved, str(path))
    home = Home(path=Path(saved.home))
    return RunFolder(path=folder, base=Path(saved.file).parent, home=home, name=saved.name)


def data_folder(run: RunFolder, spec: DataSpec) -> Path:
    """Where the prepared data of a spec goes: by its contents, so that runs of the same pipeline share it."""
    digest = hashlib.sha256(f"{run.base}{dump_json(spec)}".encode()).hexdigest()[:12]
    return run.home.data / digest


def training_task(run: RunFolder) -> Path:
    """Writes the task of the train stage; gives its folder."""
    stages = run.stages
    assert stages.train is not None
    data = "" if stages.data is None else load_result(run, "data", Prepared).folder
    folder, train = run.stage("train"), stages.train
    if train.command is not None:  # its files are named from the folder of the workload
        words = tuple(str(path) if (path := run.base / word).is_file() else word for word in train.command.run)
        train = replace(train, command=replace(train.command, run=words))
    return write_task(TrainTask(train=train, data=data, out=str(folder), name=run.name))


def load_result(run: RunFolder, stage: str, record: type[T]) -> T:
    """What an earlier stage found."""
    path = run.result(stage)
    if not path.exists():
        raise InputError.one(str(path), f"the {stage} stage has not been run", "gpuyard resume")
    return load_json(path.read_text(encoding="utf-8"), record, str(path))


def _data(run: RunFolder) -> Prepared:
    """Prepares the data."""
    stages = run.stages
    assert stages.data is not None
    spec = stages.run.engine
    engine = RayEngine() if spec.name == "ray" else LocalEngine()  # the cluster that started this stage
    out = data_folder(run, stages.data)
    made = prepare(stages.data, base=run.base, out=out, engine=engine)
    manifest = made.manifest
    return Prepared(
        folder=str(made.folder), version=manifest.version, rows_in_count=manifest.rows_in,
        rows_out_count=manifest.rows_out, dropped_count=manifest.dropped, quarantined_count=manifest.quarantined,
        features=manifest.features, splits=tuple((split.name, split.rows) for split in manifest.splits),
    )  # fmt: skip


def _evaluate(run: RunFolder) -> Evaluated:
    """Judges the model that was trained."""
    data = Path(load_result(run, "data", Prepared).folder)
    card = evaluate_file(run.workload, home=run.home, data=data).card
    return Evaluated(card=card, test=_on_test(run, data, run.stage("train") / "bundle"))


def _on_test(run: RunFolder, data: Path, bundle: Path) -> Scorecard | None:
    """The exported model on rows that nothing has seen; None where no split was kept, or it is a language model."""
    manifest = load_prepared(data).manifest
    if manifest.problem == "language" or not any(split.name == "test" and split.rows for split in manifest.splits):
        return None
    return evaluate_model(run.workload, str(bundle), home=run.home, data=data).card


def _select(run: RunFolder) -> Selected | Infeasible:
    """Searches the candidates, and trains the winner."""
    data = Path(load_result(run, "data", Prepared).folder)
    found = select_file(run.workload, home=run.home, data=data)
    if isinstance(found, Infeasible):
        return found
    folder = run.stage("select") / "winner"
    done = fit(TrainTask(train=found.train, data=str(data), out=str(folder), name=run.name))
    assert done.bundle is not None
    return Selected(selection=found, bundle=done.bundle, test=_on_test(run, data, Path(done.bundle)))


WORKERS: dict[str, Callable[[RunFolder], object]] = {"data": _data, "evaluate": _evaluate, "select": _select}


def run_stage(folder: Path, name: str) -> int:
    """Runs one stage and leaves its result; gives the exit code."""
    run = open_run(folder)
    run.infeasible(name).unlink(missing_ok=True)
    found = WORKERS[name](run)
    if isinstance(found, Infeasible):
        write_whole(run.infeasible(name), dump_json(found))
        sys.stderr.write(f"{found}\n")
        return EXIT_INFEASIBLE
    write_whole(run.result(name), dump_json(found))
    return 0


def main(words: list[str]) -> int:
    """The process of a stage."""
    try:
        return run_stage(Path(words[0]), words[1])
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_WRONG
    except RefusedError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    except Exception as error:
        refused = refusal(error, words[0])  # a disk that is full, or gone
        if refused is None:
            raise
        sys.stderr.write(f"{refused}\n")
        return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
