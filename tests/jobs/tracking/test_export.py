"""Exports of runs: outages delay points and lose none, and never reach the run."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.jobs.records import MetricPoint
from gpuyard.jobs.tracking import export as export_module
from gpuyard.jobs.tracking.export import RunExport, TrackerStatus, finish_all, read_statuses
from gpuyard.jobs.tracking.spec import TrackSpec, check_track, in_folder, with_options
from gpuyard.jobs.tracking.tracker import RunDescription
from gpuyard.retry import RetryPolicy

RUN = RunDescription(
    id="abc",
    name="iris",
    state="done",
    created_s=1.0,
    ended_s=2.0,
    settings=(("train.trees.rounds", "20"),),
    tags=(),
    note="",
    scores=(),
    files=(),
)


class Recorder:
    """A tracker that fails when it is called for the given times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.steps, self.finished = failures, [], 0  # type: ignore[var-annotated]

    def _fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise ExternalError("http://tracker", "no response", "start it")

    def start(self, run: RunDescription) -> str:
        self._fail()
        return f"http://tracker/{run.id}"

    def log(self, stage: str, points: Sequence[MetricPoint]) -> None:
        self._fail()
        self.steps += [(stage, point.step) for point in points]

    def finish(self, run: RunDescription) -> None:
        self._fail()
        self.finished += 1

    def close(self) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train").mkdir()
    return tmp_path


def write(folder: Path, steps: Sequence[int], torn: str = "") -> None:
    with (folder / "train" / "metrics.jsonl").open("a") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "loss": 1.0 / step}) + "\n")
        file.write(torn)


def exported(folder: Path, tracker: Recorder) -> RunExport:
    return RunExport("fake", "http://tracker", folder, lambda: tracker, lambda: RUN)


def test_points_after_a_failed_request_are_sent_by_the_next(folder: Path) -> None:
    tracker = Recorder()
    export = exported(folder, tracker)
    write(folder, [1, 2])
    export.run_once(final=False)
    tracker.failures = 1
    write(folder, [3])
    with pytest.raises(ExternalError):
        export.run_once(final=False)
    write(folder, [4])
    export.run_once(final=True)
    assert [step for _, step in tracker.steps] == [1, 2, 3, 4]
    assert (export.status.finished, export.status.points_count, tracker.finished) == (True, 4, 1)


def test_another_process_continues_after_the_last_point_sent(folder: Path) -> None:
    write(folder, [1, 2], torn='{"step": 3,')
    exported(folder, Recorder()).run_once(final=False)
    write(folder, [], torn=' "loss": 1}\n')
    tracker = Recorder()
    exported(folder, tracker).run_once(final=True)
    assert tracker.steps == [("train", 3)]


def test_another_server_gets_the_run_from_its_beginning(folder: Path) -> None:
    write(folder, [1])
    exported(folder, Recorder()).run_once(final=True)
    tracker = Recorder()
    other = RunExport("fake", "http://other", folder, lambda: tracker, lambda: RUN)
    other.run_once(final=True)
    assert tracker.steps == [("train", 1)]


def test_run_ends_though_its_tracker_never_responds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "POLL_S", 0.01)
    monkeypatch.setattr(export_module, "RETRY", RetryPolicy(first_s=0.01, max_s=0.01))
    write(folder, [1])
    broken, fine = Recorder(failures=10**9), Recorder()
    exports = [
        exported(folder, broken),
        RunExport("fine", "http://fine", folder, lambda: fine, lambda: RUN),
    ]
    for export in exports:
        export.start()
    statuses = finish_all(exports)
    assert [status.finished for status in statuses] == [False, True]
    assert "no response" in statuses[0].problem
    assert fine.steps == [("train", 1)]
    assert {status.target for status in read_statuses(folder)} == {"http://tracker", "http://fine"}


def test_end_of_a_run_does_not_wait_for_a_request_that_hangs(folder: Path) -> None:
    release = threading.Event()

    class Hanging(Recorder):
        def start(self, run: RunDescription) -> str:
            release.wait()
            return ""

    export = exported(folder, Hanging())
    export.start()
    export.request_finish()
    status = export.finish(timeout_s=0.01)
    assert not status.finished
    assert "no response within" in status.problem
    release.set()


def test_a_damaged_position_starts_again(folder: Path) -> None:
    write(folder, [1])
    (folder / "tracking-fake.json").write_text("{")
    assert read_statuses(folder) == ()
    tracker = Recorder()
    exported(folder, tracker).run_once(final=False)
    assert tracker.steps == [("train", 1)]


def test_options_override_the_section_of_the_file(tmp_path: Path) -> None:
    spec = TrackSpec(mlflow="http://a:1", tensorboard="boards")
    assert in_folder(spec, tmp_path).tensorboard == str(tmp_path / "boards")
    changed = with_options(spec, ["mlflow=http://b:2", "experiment=x"])
    assert (changed.mlflow, changed.experiment) == ("http://b:2", "x")
    assert TrackSpec().is_empty


@pytest.mark.parametrize("option", ["wandb=here", "mlflow", "tensorboard=", "mlflow=mlruns"])
def test_options_that_name_no_tracker_are_refused(option: str) -> None:
    with pytest.raises(InputError, match="--track"):
        with_options(TrackSpec(), [option])


def test_settings_of_mlflow_need_a_server() -> None:
    with pytest.raises(InputError, match="for MLflow only"):
        check_track(TrackSpec(experiment="x"), "pipeline.track")


def test_status_survives_in_the_run_folder(folder: Path) -> None:
    exported(folder, Recorder()).run_once(final=True)
    (status,) = read_statuses(folder)
    assert status == TrackerStatus(target="http://tracker", url="http://tracker/abc", finished=True)
