"""The ledger of runs: every change is one transaction, so that a run killed anywhere can be told and resumed."""

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

from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, RefusedError, nearest
from gpuyard.home import Home
from gpuyard.jobs.process import Process, alive, this_process
from gpuyard.jobs.records import Run, RunState, Stage, StageState
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.tables import TABLES
from gpuyard.jobs.task import Handle

__all__ = ["Ledger"]

SILENCE_S = 60.0  # a run of another machine that has not been heard of for so long is taken to be interrupted
NEW_ID_TRIES = 8
STAGE_ENDED: tuple[StageState, ...] = ("done", "failed", "cancelled", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The runs of one state directory; `now` gives Unix time."""

    home: Home
    now: Callable[[], float] = time.time

    def connect(self) -> AbstractContextManager[sqlite3.Connection]:
        """The database with this room's tables, one transaction a block."""
        return self.home.connect("jobs", TABLES)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """The database as it is now, to read."""
        return self.home.reading("jobs", TABLES)

    def new_id(self) -> str:
        """An id that no run has."""
        with self.reading() as ledger:
            taken = {row["id"] for row in ledger.execute("SELECT id FROM runs")}
        return next(each for each in (secrets.token_hex(3) for _ in range(NEW_ID_TRIES)) if each not in taken)

    def begin(
        self, *, name: str, workload: str, engine: EngineSpec, stages: Sequence[str],
        versions: Sequence[tuple[str, str]] = (), run_id: str = "",
    ) -> Run:  # fmt: skip
        """A new run, driven by this process; its folder is `home.runs`/ID."""
        assert len(set(stages)) == len(stages)
        digest = hashlib.sha256(workload.encode()).hexdigest()
        run_id = run_id or self.new_id()
        with self.connect() as ledger:
            ledger.execute(
                "INSERT INTO runs (id, name, state, engine, folder, workload, workload_hash, created_s, versions,"
                " driver, seen_s) VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id, name, dump_json(engine), str(self.home.runs / run_id), workload, digest,
                    self.now(), json.dumps([list(pair) for pair in versions]), dump_json(this_process()), self.now(),
                ),
            )  # fmt: skip
            ledger.executemany(
                "INSERT INTO stages (run, place, name, state) VALUES (?, ?, ?, 'pending')",
                [(run_id, place, stage) for place, stage in enumerate(stages)],
            )
        return self.get(run_id)

    def take(self, run_id: str) -> Run:
        """The run, driven by this process from now on; stages that did not end are pending or running still."""
        run = self.get(run_id)
        if run.state == "done":
            raise InputError.one(f"run {run.id}", "is done", "start a new one with `gpuyard run`")
        with self.connect() as ledger:
            row = ledger.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
            if row["state"] == "running" and self._driven(row):
                raise RefusedError(f"run {run.id}", "is running in another process", f"see `gpuyard logs {run.id} -f`")
            ledger.execute(
                "UPDATE runs SET state = 'running', ended_s = NULL, error = '', stop_asked = 0, driver = ?, seen_s = ?"
                " WHERE id = ?",
                (dump_json(this_process()), self.now(), run.id),
            )
        return self.get(run.id)

    def start(self, run_id: str, stage: str, handle: Handle | None = None) -> Stage:
        """The stage as it starts (again): written before its job is submitted, so that no job is ever unknown."""
        with self.connect() as ledger:
            ledger.execute(
                "UPDATE stages SET state = 'running', attempt = attempt + 1, handle = ?, started_s = ?,"
                " ended_s = NULL, result = '', error = '', exit_code = NULL WHERE run = ? AND name = ?",
                (dump_json(handle) if handle else None, self.now(), run_id, stage),
            )
            ledger.execute("UPDATE runs SET seen_s = ? WHERE id = ?", (self.now(), run_id))
            return self._stages(ledger, run_id, stage)[0]

    def finish(
        self, run_id: str, stage: str, *, state: StageState, result: str = "", error: str = "", cost_usd: float = 0.0,
        exit_code: int | None = None,
    ) -> None:  # fmt: skip
        """The stage as it ended; costs of earlier attempts stay in its sum."""
        assert state in STAGE_ENDED
        with self.connect() as ledger:
            ledger.execute(
                "UPDATE stages SET state = ?, ended_s = ?, result = ?, error = ?, cost_usd = cost_usd + ?,"
                " exit_code = ? WHERE run = ? AND name = ?",
                (state, self.now(), result, error, cost_usd, exit_code, run_id, stage),
            )

    def end(self, run_id: str, state: RunState, error: str = "") -> Run:
        """The run as it ended; a done run has no stage that is not done or skipped."""
        assert state in ("done", "failed", "cancelled")
        with self.connect() as ledger:
            if state == "done":
                rest = [stage.name for stage in self._stages(ledger, run_id) if stage.state not in ("done", "skipped")]
                assert not rest, f"stages not done: {rest}"
            else:
                ledger.execute(
                    "UPDATE stages SET state = ?, ended_s = ? WHERE run = ? AND state = 'running'",
                    (state, self.now(), run_id),
                )
            ledger.execute(
                "UPDATE runs SET state = ?, ended_s = ?, error = ? WHERE id = ?", (state, self.now(), error, run_id)
            )
        return self.get(run_id)

    def beat(self, run_id: str) -> bool:
        """Notes that the run is still driven; says whether `gpuyard stop` asked it to stop."""
        with self.connect() as ledger:
            ledger.execute("UPDATE runs SET seen_s = ? WHERE id = ?", (self.now(), run_id))
            return bool(ledger.execute("SELECT stop_asked FROM runs WHERE id = ?", (run_id,)).fetchone()[0])

    def ask_stop(self, run_id: str) -> Process | None:
        """Asks the run to stop; gives the process that drives it, if that is alive on this machine."""
        with self.connect() as ledger:
            ledger.execute("UPDATE runs SET stop_asked = 1 WHERE id = ?", (run_id,))
            row = ledger.execute("SELECT driver FROM runs WHERE id = ?", (run_id,)).fetchone()
        driver = load_json(row["driver"], Process)
        return driver if alive(driver) else None

    def runs(self) -> tuple[Run, ...]:
        """Every run, newest first."""
        with self.reading() as ledger:
            rows = ledger.execute("SELECT * FROM runs ORDER BY created_s DESC, rowid DESC").fetchall()
            return tuple(self._run(ledger, row) for row in rows)

    def get(self, run_id: str) -> Run:
        """The run of that id, of the only id that begins so, or the `last`; InputError names those there are."""
        with self.reading() as ledger:
            rows = ledger.execute("SELECT * FROM runs ORDER BY created_s DESC, rowid DESC").fetchall()
            if run_id == "last" and rows:
                return self._run(ledger, rows[0])
            exact = [row for row in rows if row["id"] == run_id]
            found = exact or [row for row in rows if run_id and row["id"].startswith(run_id)]
            if len(found) == 1:
                return self._run(ledger, found[0])
        where = f'run "{run_id}"'
        if found:
            raise InputError.one(where, f"{len(found)} runs begin so", "write more of the id")
        meant = nearest(run_id, [row["id"] for row in rows])
        fix = f"did you mean {meant}?" if meant else "see `gpuyard runs`" if rows else "start one with `gpuyard run`"
        raise InputError.one(where, f"not in {self.home.ledger}", fix)

    def _driven(self, row: sqlite3.Row) -> bool:
        """Whether another process than this one drives a running run."""
        driver = load_json(row["driver"], Process)
        if driver == this_process():
            return False
        known = alive(driver)
        return self.now() - float(row["seen_s"]) < SILENCE_S if known is None else known

    def _run(self, ledger: sqlite3.Connection, row: sqlite3.Row) -> Run:
        """A run from its row; a running one whose process is gone is interrupted."""
        state: RunState = row["state"]
        assert state in get_args(RunState)
        if state == "running" and load_json(row["driver"], Process) != this_process() and not self._driven(row):
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
        )

    def _stages(self, ledger: sqlite3.Connection, run_id: str, name: str = "") -> tuple[Stage, ...]:
        """The stages of a run in order, or the one of that name."""
        rows = ledger.execute(
            "SELECT * FROM stages WHERE run = ? AND (? = '' OR name = ?) ORDER BY place", (run_id, name, name)
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
