"""Event files as TensorBoard's own reader sees them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.jobs.records import MetricPoint
from gpuyard.jobs.tracking.tracker import RunDescription

pytest.importorskip("tensorboard")
from gpuyard.jobs.tracking.tensorboard import TensorboardTracker

RUN = RunDescription(
    id="abc",
    name="iris",
    state="running",
    created_s=1.0,
    ended_s=None,
    settings=(("train.trees.rounds", "20"), ("data.label", "target")),
    tags=(),
    note="",
    scores=(),
    files=(),
)


def points(*steps: int, offset: float = 0.0) -> list[MetricPoint]:
    return [MetricPoint(step=step, name="loss", value=step + offset, time_s=1e9) for step in steps]


def read(folder: Path) -> object:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return reader


def test_reader_sees_metrics_scores_and_hyperparameters(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import metadata

    tracker = TensorboardTracker(tmp_path)
    place = tracker.start(RUN)
    tracker.log("train", points(1, 2, 3))
    tracker.log("train", [MetricPoint(step=4, name="loss", value=None)])
    tracker.finish(replace(RUN, state="done", ended_s=9.0, scores=(("test/accuracy", 0.9),)))
    tracker.close()
    assert place == str(tmp_path / "iris-abc")
    reader = read(Path(place))
    scalars = reader.Scalars("train/loss")  # type: ignore[attr-defined]
    assert [item.step for item in scalars] == [1, 2, 3, 4]
    assert [item.value for item in scalars[:3]] == [1.0, 2.0, 3.0]
    assert math.isnan(scalars[3].value)
    assert reader.Scalars("test/accuracy")[0].value == pytest.approx(0.9)  # type: ignore[attr-defined]
    contents = reader.PluginTagToContent("hparams")  # type: ignore[attr-defined]
    begun = metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG])
    assert begun.hparams["train.trees.rounds"].number_value == 20
    assert begun.hparams["data.label"].string_value == "target"
    ended = metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG])
    assert ended.end_time_secs == 9.0


def test_steps_after_a_restart_replace_the_old_ones(tmp_path: Path) -> None:
    tracker = TensorboardTracker(tmp_path)
    place = tracker.start(RUN)
    tracker.log("train", points(1, 2, 3, 4))
    tracker.log("train", points(3, 4, 5, offset=10.0))
    tracker.close()
    scalars = read(Path(place)).Scalars("train/loss")  # type: ignore[attr-defined]
    assert [item.step for item in scalars] == [1, 2, 3, 4, 5]
    assert [item.value for item in scalars] == [1.0, 2.0, 13.0, 14.0, 15.0]


def test_a_second_process_adds_to_the_same_run(tmp_path: Path) -> None:
    for steps in ((1, 2), (3,)):
        tracker = TensorboardTracker(tmp_path)
        place = tracker.start(RUN)
        tracker.log("train", points(*steps))
        tracker.close()
    scalars = read(Path(place)).Scalars("train/loss")  # type: ignore[attr-defined]
    assert [item.step for item in scalars] == [1, 2, 3]
