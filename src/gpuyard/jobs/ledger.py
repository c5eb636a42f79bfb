"""The ledger of runs: every change is one transaction, so a killed run can be resumed."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import get_args

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError, closest_match
from gpuyard.home import Home
from gpuyard.jobs.process import Process, is_alive, this_process
from gpuyard.jobs.records import Run, RunState, Stage, StageState
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.tables import TABLES
from gpuyard.jobs.task import Handle

SILENCE_S = 60.0  # a run on another host without a heartbeat for this long is interrupted
NEW_ID_TRIES = 8
NEWEST_FIRST = "SELECT * FROM runs ORDER BY created_s DESC, rowid DESC"
STAGE_ENDED: tuple[StageState, ...] = ("done", "failed", "cancelled", "skipped")


# The ledger is the only memory of a run: whoever resumes it knows nothing else. Invariants:
#   - every method is one SQLite transaction, so that kill -9 leaves the state before or after it;
#   - a stage is recorded as running, with the handle of its job, before the job is submitted, so
#     that no job is unknown to the ledger;
#   - a run has one driver, the process that advances its stages. The driver is alive if its process
#     is (on this host) or if its last heartbeat is recent (on another). "interrupted" is computed
#     from that when a run is read, never stored, so that a killed driver has nothing to write.
@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The runs of one state directory; `now` returns Unix time."""

    home: Home
    now: Callable[[], float] = time.time

    def connect(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open the database with the tables of this package, one transaction per block."""
        return self.home.connect("jobs", TABLES)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.home.reading("jobs", TABLES)

    def new_id(self) -> str:
        with self.reading() as ledger:
            taken = {row["id"] for row in ledger.execute("SELECT id FROM runs")}
        return next(
            run_id
            for run_id in (secrets.token_hex(3) for _ in range(NEW_ID_TRIES))
            if run_id not in taken
        )

    def begin(
        self,
        *,
        name: str,
        workload: str,
        engine: EngineSpec,
        stages: Sequence[str],
        versions: Sequence[tuple[str, str]] = (),
        run_id: str = "",
        until: str = "",
    ) -> Run:
        """Create a run driven by this process; its folder is `home.runs`/ID."""
        assert len(set(stages)) == len(stages)
        digest = hashlib.sha256(workload.encode()).hexdigest()
        run_id = run_id or self.new_id()
        with self.connect() as ledger:
            ledger.execute(
                "INSERT INTO runs (id, name, state, engine, folder, workload, workload_hash,"
                " created_s, versions, driver, seen_s, until)"
                " VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    name,
                    dump_json(engine),
                    str(self.home.runs / run_id),
                    workload,
                    digest,
                    self.now(),
                    json.dumps([list(pair) for pair in versions]),
                    dump_json(this_process()),
                    self.now(),
                    until,
                ),
            )
            ledger.executemany(
                "INSERT INTO stages (run, place, name, state) VALUES (?, ?, ?, 'pending')",
                [(run_id, place, stage) for place, stage in enumerate(stages)],
            )
        return self.get(run_id)

    def take(self, run_id: str) -> Run:
        """Take over a run in this process; unfinished stages stay pending or running.

        One that ended done, after the last stage that was requested, now has all of its stages to
        do; one that was killed or failed before keeps its last stage.
        """
        run = self.get(run_id)
        if run.state == "done" and not run.resumable:
            raise InputError.one(f"run {run.id}", "is done", "start a new one with `gpuyard run`")
        with self.connect() as ledger:
            row = ledger.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
            if row["state"] == "running" and self._has_live_driver(row):
                raise ExternalError(
                    f"run {run.id}",
                    "is running in another process",
                    f"see `gpuyard logs {run.id} -f`",
                )
            ledger.execute(
                "UPDATE runs SET until = CASE state WHEN 'done' THEN '' ELSE until END,"
                " state = 'running', ended_s = NULL, error = '', stop_asked = 0,"
                " driver = ?, seen_s = ? WHERE id = ?",
                (dump_json(this_process()), self.now(), run.id),
            )
        return self.get(run.id)

    def start(self, run_id: str, stage: str, handle: Handle | None = None) -> Stage:
        """Record that a stage starts; called before its job is submitted, so no job is unknown."""
        with self.connect() as ledger:
            ledger.execute(
                "UPDATE stages SET state = 'running', attempt = attempt + 1, handle = ?,"
                " started_s = ?, ended_s = NULL, result = '', error = '', exit_code = NULL"
                " WHERE run = ? AND name = ?",
                (dump_json(handle) if handle else None, self.now(), run_id, stage),
            )
            ledger.execute("UPDATE runs SET seen_s = ? WHERE id = ?", (self.now(), run_id))
            return self._stages(ledger, run_id, stage)[0]

    def finish(
        self,
        run_id: str,
        stage: str,
        *,
        state: StageState,
        result: str = "",
        error: str = "",
        cost_usd: float = 0.0,
        exit_code: int | None = None,
    ) -> None:
        """Record how a stage ended; costs of earlier attempts stay in its sum."""
        assert state in STAGE_ENDED
        with self.connect() as ledger:
            ledger.execute(
                "UPDATE stages SET state = ?, ended_s = ?, result = ?, error = ?,"
                " cost_usd = cost_usd + ?, exit_code = ? WHERE run = ? AND name = ?",
                (state, self.now(), result, error, cost_usd, exit_code, run_id, stage),
            )

    def end(self, run_id: str, state: RunState, error: str = "") -> Run:
        """Record how a run ended; stages of a done run are done, skipped, or not requested."""
        assert state in ("done", "failed", "cancelled")
        with self.connect() as ledger:
            if state == "done":
                rest = [
                    stage.name
                    for stage in self._stages(ledger, run_id)
                    if stage.state not in ("done", "skipped", "pending")
                ]
                assert not rest, f"stages not done: {rest}"
            else:
                ledger.execute(
                    "UPDATE stages SET state = ?, ended_s = ? WHERE run = ? AND state = 'running'",
                    (state, self.now(), run_id),
                )
            ledger.execute(
                "UPDATE runs SET state = ?, ended_s = ?, error = ? WHERE id = ?",
                (state, self.now(), error, run_id),
            )
        return self.get(run_id)

    def describe(
        self, run_id: str, *, tags: Sequence[tuple[str, str]] | None = None, note: str | None = None
    ) -> Run:
        """Replace the tags or the note of a run."""
        with self.connect() as ledger:
            if tags is not None:
                texts = json.dumps([list(pair) for pair in tags])
                ledger.execute("UPDATE runs SET tags = ? WHERE id = ?", (texts, run_id))
            if note is not None:
                ledger.execute("UPDATE runs SET note = ? WHERE id = ?", (note, run_id))
        return self.get(run_id)

    def heartbeat(self, run_id: str) -> bool:
        """Record that the run is still driven. Return whether a stop was requested."""
        with self.connect() as ledger:
            ledger.execute("UPDATE runs SET seen_s = ? WHERE id = ?", (self.now(), run_id))
            return bool(
                ledger.execute("SELECT stop_asked FROM runs WHERE id = ?", (run_id,)).fetchone()[0]
            )

    def request_stop(self, run_id: str) -> Process | None:
        """Request a stop. Return the process that drives the run if it is alive on this host."""
        with self.connect() as ledger:
            ledger.execute("UPDATE runs SET stop_asked = 1 WHERE id = ?", (run_id,))
            row = ledger.execute("SELECT driver FROM runs WHERE id = ?", (run_id,)).fetchone()
        driver = load_json(row["driver"], Process)
        return driver if is_alive(driver) else None

    def runs(self) -> tuple[Run, ...]:
        """Return every run, newest first."""
        with self.reading() as ledger:
            rows = ledger.execute(NEWEST_FIRST).fetchall()
            return tuple(self._run(ledger, row) for row in rows)

    def get(self, run_id: str) -> Run:
        """Return a run by id, unique id prefix, or `last`. Raise InputError if there is none."""
        with self.reading() as ledger:
            rows = ledger.execute(NEWEST_FIRST).fetchall()
            if run_id == "last" and rows:
                return self._run(ledger, rows[0])
            exact = [row for row in rows if row["id"] == run_id]
            matches = exact or [row for row in rows if run_id and row["id"].startswith(run_id)]
            if len(matches) == 1:
                return self._run(ledger, matches[0])
        where = f'run "{run_id}"'
        if matches:
            what = f"is the prefix of {len(matches)} run ids"
            raise InputError.one(where, what, "write more of the id")
        meant = closest_match(run_id, [row["id"] for row in rows])
        fix = "see `gpuyard runs`" if rows else "start one with `gpuyard run`"
        fix = f"did you mean {meant}?" if meant else fix
        raise InputError.one(where, f"not in {self.home.ledger}", fix)

    def _has_live_driver(self, row: sqlite3.Row) -> bool:
        driver = load_json(row["driver"], Process)
        if driver == this_process():
            return False
        alive = is_alive(driver)
        return self.now() - float(row["seen_s"]) < SILENCE_S if alive is None else alive

    def _run(self, ledger: sqlite3.Connection, row: sqlite3.Row) -> Run:
        state: RunState = row["state"]
        assert state in get_args(RunState)
        is_own = load_json(row["driver"], Process) == this_process()
        if state == "running" and not is_own and not self._has_live_driver(row):
            state = "interrupted"
        return Run(
            id=row["id"],
            name=row["name"],
            state=state,
            engine=load_json(row["engine"], EngineSpec),
            folder=row["folder"],
            workload=row["workload"],
            workload_hash=row["workload_hash"],
            created_s=row["created_s"],
            ended_s=row["ended_s"],
            error=row["error"],
            versions=tuple((name, version) for name, version in json.loads(row["versions"])),
            stages=self._stages(ledger, row["id"]),
            stop_asked=bool(row["stop_asked"]),
            tags=tuple((name, value) for name, value in json.loads(row["tags"])),
            note=row["note"],
            until=row["until"],
        )

    def _stages(self, ledger: sqlite3.Connection, run_id: str, name: str = "") -> tuple[Stage, ...]:
        rows = ledger.execute(
            "SELECT * FROM stages WHERE run = ? AND (? = '' OR name = ?) ORDER BY place",
            (run_id, name, name),
        )
        return tuple(
            Stage(
                name=row["name"],
                state=row["state"],
                attempt=row["attempt"],
                handle=load_json(row["handle"], Handle) if row["handle"] else None,
                started_s=row["started_s"],
                ended_s=row["ended_s"],
                result=row["result"],
                error=row["error"],
                cost_usd=row["cost_usd"],
                exit_code=row["exit_code"],
            )
            for row in rows
        )
