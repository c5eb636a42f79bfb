"""The metrics log of a killed and resumed training run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics, read_events, read_metrics


def test_metrics_are_json_lines(tmp_path: Path) -> None:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    log.record(StepMetrics(step=1, loss=0.5, time_s=7.0, others=(("accuracy", 0.25),)))
    assert json.loads(log.path.read_text()) == {
        "step": 1,
        "time_s": 7.0,
        "loss": 0.5,
        "accuracy": 0.25,
    }
    assert read_metrics(log.path) == (
        StepMetrics(step=1, loss=0.5, time_s=7.0, others=(("accuracy", 0.25),)),
    )


def test_last_line_of_a_repeated_step_counts(tmp_path: Path) -> None:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    for step, loss in ((1, 3.0), (2, 2.0), (3, 1.0)):
        log.record(StepMetrics(step=step, loss=loss))
    log.event("resumed", 1)
    log.record(StepMetrics(step=2, loss=2.5))
    assert [(line.step, line.loss) for line in read_metrics(log.path)] == [
        (1, 3.0),
        (2, 2.5),
        (3, 1.0),
    ]
    assert read_events(log.path) == (("resumed", 1, ""),)


def test_torn_line_is_skipped(tmp_path: Path) -> None:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    log.record(StepMetrics(step=1, loss=3.0))
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    log.record(StepMetrics(step=3, loss=1.0))
    assert [line.step for line in read_metrics(log.path)] == [1, 3]


def test_nan_loss_is_valid_json(tmp_path: Path) -> None:
    log = MetricsLog(path=tmp_path / "metrics.jsonl")
    log.record(StepMetrics(step=1, loss=math.nan))
    json.loads(log.path.read_text(), parse_constant=pytest.fail)
    loss = read_metrics(log.path)[0].loss
    assert loss is not None
    assert math.isnan(loss)


def test_unwritable_log_raises_external_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(ExternalError, match="cannot be written"):
        MetricsLog(path=tmp_path / "metrics.jsonl").record(StepMetrics(step=1))
