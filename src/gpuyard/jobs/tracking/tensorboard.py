"""TensorBoard event files: metrics by step, hyperparameters, and the workload as text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from gpuyard.jobs.records import MetricPoint
from gpuyard.jobs.tracking.tracker import RunDescription


class TensorboardTracker:
    """Writes to DIR/NAME-ID/; a process that resumes the run adds another file there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer: EventFileWriter | None = None
        self._last_step: dict[str, int] = {}

    def start(self, run: RunDescription) -> str:
        place = self.folder / f"{run.name}-{run.id}"
        place.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(place))
        values = {name: _value(text) for name, text in run.settings}
        self._add(hparams.hparams_pb(values, trial_id=run.id, start_time_secs=run.created_s), 0)
        self._writer.flush()
        return str(place)

    def log(self, stage: str, points: Sequence[MetricPoint]) -> None:
        """Add scalars; steps that are written again after a restart replace the old ones."""
        assert self._writer is not None
        last = self._last_step.get(stage)
        for point in points:
            if last is not None and point.step < last:
                restart = SessionLog(status=SessionLog.START)
                now = point.time_s or time.time()
                event = Event(session_log=restart, step=point.step, wall_time=now)
                self._writer.add_event(event)
            last = point.step
            value = float("nan") if point.value is None else point.value
            summary = Summary(value=[_scalar(f"{stage}/{point.name}", value)])
            self._add(summary, point.step, point.time_s)
        if last is not None:
            self._last_step[stage] = last
        self._writer.flush()

    def finish(self, run: RunDescription) -> None:
        assert self._writer is not None
        if run.scores:
            self._add(Summary(value=[_scalar(name, value) for name, value in run.scores]), 0)
        if run.state in ("done", "failed", "cancelled"):
            state = "STATUS_SUCCESS" if run.state == "done" else "STATUS_FAILURE"
            self._add(_session_end(state, run.ended_s), 0)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, summary: Summary, step: int, time_s: float | None = None) -> None:
        assert self._writer is not None
        event = Event(summary=summary, step=step, wall_time=time_s or time.time())
        self._writer.add_event(event)


def _scalar(tag: str, value: float) -> Summary.Value:
    return Summary.Value(tag=tag, simple_value=value)


def _session_end(state: str, ended_s: float | None) -> Summary:
    # tensorboard builds it only with tensorflow installed.
    info = SessionEndInfo(status=api_pb2.Status.Value(state), end_time_secs=ended_s or time.time())
    described = metadata.create_summary_metadata(HParamsPluginData(session_end_info=info))
    tag = metadata.SESSION_END_INFO_TAG
    return Summary(value=[Summary.Value(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)])


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
