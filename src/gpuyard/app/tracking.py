"""Export runs to MLflow and TensorBoard: while they run, or afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.run_comparison import values_of
from gpuyard.app.runs import find_run
from gpuyard.app.stage_worker import RunFolder, open_run
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import InputError
from gpuyard.home import Home, write_atomic
from gpuyard.http import NO_RETRY
from gpuyard.jobs.records import Run
from gpuyard.jobs.tracking.export import RunExport, TrackerStatus
from gpuyard.jobs.tracking.mlflow import MlflowTracker
from gpuyard.jobs.tracking.spec import TrackSpec, in_folder, with_options
from gpuyard.jobs.tracking.tracker import RunDescription, Tracker
from gpuyard.registry.mlflow_client import connect_mlflow

SAVED = "track.json"  # in the run's folder: the section with the options of the command line
TIMEOUT_S = 15.0  # of one request; the export tries again later
RESULTS = ("result.json", "infeasible.json", "metrics.jsonl")


def save_tracking(folder: RunFolder, options: Sequence[str]) -> None:
    """Record where a run is exported to, so that `gpuyard resume` does the same."""
    spec = with_options(in_folder(folder.stages.track, folder.base), options)
    if spec.tensorboard is not None:
        _tensorboard(Path(spec.tensorboard))  # the package is missing: before anything runs
    if not spec.is_empty:
        write_atomic(folder.path / SAVED, dump_json(spec))


def tracking_of(folder: RunFolder) -> TrackSpec:
    """Return where a run is exported to."""
    saved = folder.path / SAVED
    if saved.is_file():
        return load_json_file(saved, TrackSpec)
    return in_folder(folder.stages.track, folder.base)


def exports_of(home: Home, folder: RunFolder, run: Run, spec: TrackSpec) -> tuple[RunExport, ...]:
    """Return an export per tracker, not started."""

    def describe() -> RunDescription:
        return describe_run(home, folder, find_run(home, run.id), with_model=spec.model)

    def export(name: str, target: str, connect: Callable[[], Tracker]) -> RunExport:
        return RunExport(name, target, folder.path, connect, describe)

    exports = []
    if spec.mlflow is not None:
        client = replace(connect_mlflow(spec.mlflow), timeout_s=TIMEOUT_S, retry=NO_RETRY)
        experiment = spec.experiment or run.name
        exports.append(export("mlflow", client.uri, lambda: MlflowTracker(client, experiment)))
    if spec.tensorboard is not None:
        place = Path(spec.tensorboard)
        exports.append(export("tensorboard", str(place), _tensorboard(place)))
    return tuple(exports)


def track_run(home: Home, run_id: str, options: Sequence[str]) -> tuple[TrackerStatus, ...]:
    """Send what a run's trackers do not have yet, or all of it to new ones.

    Raises ExternalError if a tracker does not respond.
    """
    run = find_run(home, run_id)
    folder = open_run(Path(run.folder))
    spec = with_options(tracking_of(folder), options)
    if spec.is_empty:
        fix = "add --track mlflow=http://HOST:PORT or --track tensorboard=DIR"
        raise InputError.one(f"run {run.id}", "names no tracker", fix)
    statuses = []
    for export in exports_of(home, folder, run, spec):
        export.run_once(final=run.state != "running")
        export.close()
        statuses.append(export.status)
    return tuple(statuses)


def describe_run(home: Home, folder: RunFolder, run: Run, *, with_model: bool) -> RunDescription:
    """Return a run as trackers show it."""
    values = values_of(home, run)
    stages = {stage.name for stage in run.stages}
    scores = [
        (f"{stage}/{rest}", value)
        for name, value in values.metrics
        if (stage := name.partition(".")[0]) and (rest := name.partition(".")[2])
        if stage in ("evaluate", "test")
    ]
    files = [("workload.yaml", folder.workload)]
    for stage in sorted(stages):
        place = folder.stage(stage)
        files += [(f"{stage}/{name}", place / name) for name in RESULTS if (place / name).is_file()]
    if with_model:
        files += _bundle_files(folder)
    versions = tuple((f"version.{name}", version) for name, version in run.versions)
    return RunDescription(
        id=run.id,
        name=run.name,
        state=run.state,
        created_s=run.created_s,
        ended_s=run.ended_s,
        settings=values.settings,
        tags=(*versions, *run.tags),
        note=run.note,
        scores=tuple(scores),
        files=tuple(files),
    )


def _bundle_files(folder: RunFolder) -> list[tuple[str, Path]]:
    for bundle in (folder.stage("select") / "winner" / "bundle", folder.stage("train") / "bundle"):
        if bundle.is_dir():
            paths = sorted(path for path in bundle.rglob("*") if path.is_file())
            return [(f"model/{path.relative_to(bundle)}", path) for path in paths]
    return []


def _tensorboard(place: Path) -> Callable[[], Tracker]:
    from gpuyard.jobs.tracking.tensorboard import TensorboardTracker  # needs gpuyard[tensorboard]

    return lambda: TensorboardTracker(place)
