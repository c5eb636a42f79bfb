"""Runs of an MLflow tracking server: settings, metrics by step, tags and artefacts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpuyard.document.frozen_json import Plain
from gpuyard.jobs.records import MetricPoint, RunState
from gpuyard.jobs.tracking.tracker import RunDescription
from gpuyard.registry.mlflow_client import (
    MAX_PARAM_LENGTH,
    MAX_PARAMS,
    MAX_TAG_LENGTH,
    MlflowClient,
    experiment_id,
)

RUN_TAG, CREATED_TAG = "gpuyard.run", "gpuyard.created"
NOTE_TAG = "mlflow.note.content"
# MLflow's limits: metrics per log-batch call, tags per call, characters of a key.
MAX_METRICS = 1000
MAX_TAGS = 100
MAX_KEY_LENGTH = 250
STATUS: dict[RunState, str] = {
    "running": "RUNNING",
    "interrupted": "RUNNING",
    "done": "FINISHED",
    "failed": "FAILED",
    "cancelled": "KILLED",
}
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9_\-. :/]")
T = TypeVar("T")


class MlflowTracker:
    """Exports one run; repeated calls change nothing, as MLflow drops equal points."""

    def __init__(self, client: MlflowClient, experiment: str) -> None:
        self.client, self.experiment = client, experiment
        self._run: _RemoteRun | None = None

    def start(self, run: RunDescription) -> str:
        remote = self._find_or_create(run)
        settings: list[Plain] = [
            {"key": key(name), "value": value[:MAX_PARAM_LENGTH]} for name, value in run.settings
        ]
        for params in _chunks(settings, MAX_PARAMS):
            self.client.post("mlflow/runs/log-batch", {"run_id": remote.id, "params": params})
        self._run = remote
        self._update(run)
        return f"{self.client.uri}/#/experiments/{remote.experiment}/runs/{remote.id}"

    def log(self, stage: str, points: Sequence[MetricPoint]) -> None:
        assert self._run is not None
        now = time.time()
        metrics: list[Plain] = [
            {
                "key": key(f"{stage}/{point.name}"),
                "value": "NaN" if point.value is None else point.value,
                "timestamp": round((point.time_s or now) * 1000),
                "step": point.step,
            }
            for point in points
        ]
        for some in _chunks(metrics, MAX_METRICS):
            self.client.post("mlflow/runs/log-batch", {"run_id": self._run.id, "metrics": some})

    def finish(self, run: RunDescription) -> None:
        assert self._run is not None
        at_ms = round((run.ended_s or time.time()) * 1000)
        scores: list[Plain] = [
            {"key": key(name), "value": value, "timestamp": at_ms, "step": 0}
            for name, value in run.scores
        ]
        for some in _chunks(scores, MAX_METRICS):
            self.client.post("mlflow/runs/log-batch", {"run_id": self._run.id, "metrics": some})
        self._update(run)
        for path, file in run.files:
            if file.is_file():
                self.client.upload(f"{self._run.location}/{path}", file)

    def close(self) -> None:
        """Do nothing: every request has its own connection."""

    def _find_or_create(self, run: RunDescription) -> _RemoteRun:
        """Return the server's run; ids are unique per state directory only, so with the time."""
        experiment = experiment_id(self.client, self.experiment)
        created = f"{run.created_s:.6f}"
        wanted = f"tags.`{RUN_TAG}` = '{run.id}' and tags.`{CREATED_TAG}` = '{created}'"
        query = {"experiment_id": experiment, "filter": wanted}
        existing = next(self.client.search("mlflow/runs/search", "runs", query, post=True), None)
        if existing is None:
            tags: list[Plain] = [
                {"key": RUN_TAG, "value": run.id},
                {"key": CREATED_TAG, "value": created},
            ]
            body: dict[str, Plain] = {
                "experiment_id": experiment,
                "run_name": f"{run.name}-{run.id}",
                "start_time": round(run.created_s * 1000),
                "tags": tags,
            }
            created_run = self.client.post("mlflow/runs/create", body)["run"]
            assert isinstance(created_run, dict)
            existing = created_run
        info = existing["info"]
        assert isinstance(info, dict)
        return _RemoteRun(
            id=str(info["run_id"]),
            experiment=experiment,
            location=str(info["artifact_uri"]).rstrip("/"),
        )

    def _update(self, run: RunDescription) -> None:
        """Record tags, note and state."""
        assert self._run is not None
        pairs = [*run.tags, *([(NOTE_TAG, run.note)] if run.note else [])]
        tags: list[Plain] = [
            {"key": key(name), "value": value[:MAX_TAG_LENGTH]} for name, value in pairs
        ]
        for some in _chunks(tags, MAX_TAGS):
            self.client.post("mlflow/runs/log-batch", {"run_id": self._run.id, "tags": some})
        body: dict[str, Plain] = {"run_id": self._run.id, "status": STATUS[run.state]}
        if run.ended_s is not None:
            body["end_time"] = round(run.ended_s * 1000)
        self.client.post("mlflow/runs/update", body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoteRun:
    id: str
    experiment: str
    location: str  # of its artefacts


def key(name: str) -> str:
    """Return a name as MLflow allows it: `steps[0].clip` becomes `steps.0.clip`."""
    return _NOT_IN_KEYS.sub("_", re.sub(r"\[(\d+)\]", r".\1", name))[:MAX_KEY_LENGTH]


def _chunks(items: list[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
