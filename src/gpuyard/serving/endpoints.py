"""Endpoints in the ledger: which servers were started, what they serve, and whether they still do."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.errors import InputError, RefusedError, nearest
from gpuyard.home import Home
from gpuyard.serving.spec import Settings

__all__ = ["TABLES", "Canary", "Endpoint", "Endpoints", "State"]

State = Literal["running", "stopped", "lost"]
TABLES = (
    """
    CREATE TABLE endpoints (
        name TEXT PRIMARY KEY, models TEXT NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL, pid INTEGER NOT NULL,
        born TEXT NOT NULL, workers INTEGER NOT NULL, started_s REAL NOT NULL, ended_s REAL, folder TEXT NOT NULL
    )
    """,
    "ALTER TABLE endpoints ADD COLUMN canaries TEXT NOT NULL DEFAULT ''",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A version that answers a share of its model's requests."""

    model: str  # NAME/VERSION
    share_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that was started."""

    name: str
    models: tuple[str, ...]  # NAME/VERSION in use
    canaries: tuple[Canary, ...] = ()  # beside them now; one that was taken back is not here
    url: str
    pid: int
    workers: int
    started_s: float
    ended_s: float | None = None
    state: State
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The endpoints of one state directory."""

    home: Home

    def started(self, settings: Settings, models: tuple[str, ...]) -> None:
        """Notes that this process serves; RefusedError if a living one does under that name."""
        pid = os.getpid()
        with self._connect() as connection:
            row = connection.execute("SELECT * FROM endpoints WHERE name = ?", (settings.name,)).fetchone()
            if row is not None and _state(row) == "running" and row["pid"] != pid:
                raise RefusedError(
                    f'service "{settings.name}"', f"runs already as process {row['pid']}",
                    f"stop it with `gpuyard serve --stop {settings.name}`, or give this one another --name",
                )  # fmt: skip
            connection.execute(
                "INSERT OR REPLACE INTO endpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, '')",
                (settings.name, " ".join(models), settings.host, settings.port, pid, _born(pid), settings.workers,
                 time.time(), settings.folder),
            )  # fmt: skip

    def changed(self, name: str, models: tuple[str, ...], canaries: tuple[Canary, ...]) -> None:
        """Notes what a server answers with now."""
        beside = " ".join(f"{canary.model}={canary.share_ratio}" for canary in canaries)
        with self._connect() as connection:
            connection.execute(
                "UPDATE endpoints SET models = ?, canaries = ? WHERE name = ?", (" ".join(models), beside, name)
            )

    def ended(self, name: str) -> None:
        """Notes that the server of that name has stopped."""
        with self._connect() as connection:
            connection.execute("UPDATE endpoints SET ended_s = ? WHERE name = ?", (time.time(), name))

    def all(self) -> tuple[Endpoint, ...]:
        """Every endpoint, the newest first."""
        with self.home.reading("serving", TABLES) as connection:
            rows = connection.execute("SELECT * FROM endpoints ORDER BY started_s DESC").fetchall()
        return tuple(_endpoint(row) for row in rows)

    def get(self, name: str) -> Endpoint:
        """The endpoint of that name; InputError if there is none."""
        known = {endpoint.name: endpoint for endpoint in self.all()}
        if name not in known:
            meant = nearest(name, known)
            fix = f'did you mean "{meant}"?' if meant else "`gpuyard serve --list` shows them"
            raise InputError.one(f'service "{name}"', f"was never started in {self.home.path}", fix)
        return known[name]

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        """The ledger with this room's tables."""
        return self.home.connect("serving", TABLES)


def _born(pid: int) -> str:
    """When a living process began, in the kernel's ticks: the number of a process is given again, this is not."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in ("Z", "X") else rest[18]


def _state(row: sqlite3.Row) -> State:
    """Whether the process that was noted still lives."""
    if row["ended_s"] is not None:
        return "stopped"
    return "running" if row["born"] and _born(row["pid"]) == row["born"] else "lost"


def _canary(text: str) -> Canary:
    """NAME/VERSION=SHARE, as it is noted."""
    model, _, share = text.rpartition("=")
    return Canary(model=model, share_ratio=float(share))


def _endpoint(row: sqlite3.Row) -> Endpoint:
    """The value of a row."""
    host = f"[{row['host']}]" if ":" in row["host"] else row["host"]
    return Endpoint(
        name=row["name"], models=tuple(row["models"].split()),
        canaries=tuple(_canary(word) for word in row["canaries"].split()), url=f"http://{host}:{row['port']}",
        pid=row["pid"], workers=row["workers"], started_s=row["started_s"], ended_s=row["ended_s"], state=_state(row),
        log=str(Path(row["folder"]).parent / "log"),
    )  # fmt: skip
