"""Export a run while it runs: one thread per tracker reads the metrics files of the stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import InputError
from gpuyard.home import write_atomic
from gpuyard.jobs.metrics import read_points
from gpuyard.jobs.tracking.tracker import RunDescription, Tracker
from gpuyard.retry import RetryPolicy

POLL_S = 2.0
FINISH_S = 30.0  # how long the end of a run may wait for its trackers
RETRY = RetryPolicy(first_s=2.0, max_s=60.0)
LAST_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """How far the metrics of a stage were sent."""

    stage: str
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerStatus:
    """How far a run was exported to one tracker, as its folder records it."""

    target: str  # address or folder
    url: str = ""  # where the run is shown
    sent: tuple[SentBytes, ...] = ()
    points_count: int = 0
    problem: str = ""  # of the last attempt; empty: it succeeded
    finished: bool = False


def read_statuses(run_folder: Path) -> tuple[TrackerStatus, ...]:
    """Return the exports of a run; none if it is not tracked, or another version wrote them."""
    statuses = []
    for path in sorted(run_folder.glob("tracking-*.json")):
        try:
            statuses.append(load_json_file(path, TrackerStatus))
        except InputError:
            continue
    return tuple(statuses)


# The export loop. The metrics files are the source: each is read from where the last successful
# request ended, so that an outage delays points and loses none. Invariants: the position is saved
# after the tracker accepted the points, so points may be sent twice and are never skipped (MLflow
# drops equal points, TensorBoard draws them once); an exception ends an attempt, never the thread,
# and never reaches the run.
class RunExport:
    """The export of one run to one tracker, in a thread of the process that drives the run."""

    def __init__(
        self,
        name: str,
        target: str,
        folder: Path,
        connect: Callable[[], Tracker],
        describe: Callable[[], RunDescription],
    ) -> None:
        self.file = folder / f"tracking-{name}.json"
        self.folder, self.connect, self.describe = folder, connect, describe
        self.status = self._saved(target)
        self._tracker: Tracker | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"track-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def request_finish(self) -> None:
        self._end.set()

    def finish(self, timeout_s: float = FINISH_S) -> TrackerStatus:
        """Send the rest and the final state; wait no longer than `timeout_s` for it."""
        self._end.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            problem = self.status.problem or f"no response within {timeout_s:g} s"
            self._save(replace(self.status, problem=problem))
        return self.status

    def run_once(self, *, final: bool) -> None:
        """Send what is new; raise what the tracker raises."""
        if self._tracker is None:
            tracker = self.connect()
            url = tracker.start(self.describe())
            self._tracker = tracker
            self.status = replace(self.status, url=url)
        for path in sorted(self.folder.glob("*/metrics.jsonl")):
            self._send(self._tracker, path.parent.name, path)
        if final:
            self._tracker.finish(self.describe())
        self._save(replace(self.status, problem="", finished=final))

    def _send(self, tracker: Tracker, stage: str, path: Path) -> None:
        sent = {item.stage: item.read_bytes for item in self.status.sent}
        while True:
            points, offset = read_points(path, sent.get(stage, 0))
            if offset == sent.get(stage, 0):
                return
            tracker.log(stage, points)
            sent[stage] = offset
            positions = tuple(SentBytes(stage=key, read_bytes=sent[key]) for key in sorted(sent))
            count = self.status.points_count + len(points)
            self._save(replace(self.status, sent=positions, points_count=count))

    def _loop(self) -> None:
        failures = last_tries = 0
        while True:
            is_final = self._end.is_set()
            try:
                self.run_once(final=is_final)
                failures = 0
            except Exception as error:  # whatever it is: the run goes on
                failures += 1
                last_tries += is_final
                text = " ".join(str(error).split()) or type(error).__name__
                self._save(replace(self.status, problem=text))
            if is_final and (not failures or last_tries >= LAST_TRIES):
                break
            wait_s = RETRY.backoff_s(failures) if failures else POLL_S
            if is_final:
                time.sleep(min(wait_s, POLL_S))
            else:
                self._end.wait(wait_s)
        self.close()

    def close(self) -> None:
        """Release the tracker's files."""
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def _saved(self, target: str) -> TrackerStatus:
        try:
            saved = load_json_file(self.file, TrackerStatus)
        except InputError:
            return TrackerStatus(target=target)
        same = saved.target == target
        return replace(saved, finished=False) if same else TrackerStatus(target=target)

    def _save(self, status: TrackerStatus) -> None:
        self.status = status
        try:
            write_atomic(self.file, dump_json(status))
        except Exception:  # a full disk: the next attempt saves, or sends some points twice
            return


def finish_all(exports: Sequence[RunExport]) -> tuple[TrackerStatus, ...]:
    """Finish exports, together within the time for one."""
    until_s = time.monotonic() + FINISH_S
    for export in exports:
        export.request_finish()
    return tuple(export.finish(max(0.0, until_s - time.monotonic())) for export in exports)
