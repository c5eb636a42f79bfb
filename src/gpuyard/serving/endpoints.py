"""Endpoints in the ledger: which servers were started, their models, and whether they still run."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.errors import ExternalError, InputError, closest_match
from gpuyard.home import Home
from gpuyard.serving.spec import ServerSettings
from gpuyard.serving.tables import TABLES

State = Literal["running", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A version that serves a share of its model's requests."""

    model: str  # NAME/VERSION
    share_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that was started, with its current state."""

    name: str
    models: tuple[str, ...]  # active NAME/VERSION
    canaries: tuple[Canary, ...] = ()  # without those that were rolled back
    url: str
    grpc_url: str = ""  # HOST:PORT; empty without gRPC
    tls_cert: str = ""  # path; empty without TLS
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

    def started(self, settings: ServerSettings, models: tuple[str, ...]) -> None:
        """Record that this process serves. Raise ExternalError if the name is already in use."""
        pid = os.getpid()
        with self._connect() as connection:
            row = connection.execute(
                "SELECT * FROM endpoints WHERE name = ?", (settings.name,)
            ).fetchone()
            if row is not None and _state(row) == "running" and row["pid"] != pid:
                raise ExternalError(
                    f'service "{settings.name}"',
                    f"already running as process {row['pid']}",
                    f"stop it with `gpuyard serve --stop {settings.name}`, or use another --name",
                )
            connection.execute(
                "INSERT OR REPLACE INTO endpoints"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, '', ?, ?)",
                (
                    settings.name,
                    " ".join(models),
                    settings.host,
                    settings.port,
                    pid,
                    _born(pid),
                    settings.workers,
                    time.time(),
                    settings.folder,
                    settings.access.tls_cert,
                    settings.grpc_url,
                ),
            )

    def changed(self, name: str, models: tuple[str, ...], canaries: tuple[Canary, ...]) -> None:
        """Record the versions that a server serves now."""
        shares = " ".join(f"{canary.model}={canary.share_ratio}" for canary in canaries)
        with self._connect() as connection:
            connection.execute(
                "UPDATE endpoints SET models = ?, canaries = ? WHERE name = ?",
                (" ".join(models), shares, name),
            )

    def ended(self, name: str) -> None:
        """Record that a server has stopped."""
        with self._connect() as connection:
            connection.execute(
                "UPDATE endpoints SET ended_s = ? WHERE name = ?", (time.time(), name)
            )

    def all(self) -> tuple[Endpoint, ...]:
        """Return every endpoint, newest first."""
        with self.home.reading("serving", TABLES) as connection:
            rows = connection.execute("SELECT * FROM endpoints ORDER BY started_s DESC").fetchall()
        return tuple(_endpoint(row) for row in rows)

    def get(self, name: str) -> Endpoint:
        """Return an endpoint by name. Raise InputError if there is none."""
        known = {endpoint.name: endpoint for endpoint in self.all()}
        if name not in known:
            meant = closest_match(name, known)
            fix = f'did you mean "{meant}"?' if meant else "see `gpuyard serve --list`"
            raise InputError.one(f'service "{name}"', f"was never started in {self.home.path}", fix)
        return known[name]

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.home.connect("serving", TABLES)


# Start time in kernel ticks: process ids are reused, the pair of id and start time is not.
def _born(pid: int) -> str:
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in ("Z", "X") else rest[18]


def _state(row: sqlite3.Row) -> State:
    if row["ended_s"] is not None:
        return "stopped"
    return "running" if row["born"] and _born(row["pid"]) == row["born"] else "lost"


def _canary(text: str) -> Canary:
    model, _, share = text.rpartition("=")
    return Canary(model=model, share_ratio=float(share))


def _endpoint(row: sqlite3.Row) -> Endpoint:
    host = f"[{row['host']}]" if ":" in row["host"] else row["host"]
    return Endpoint(
        name=row["name"],
        models=tuple(row["models"].split()),
        canaries=tuple(_canary(word) for word in row["canaries"].split()),
        url=f"{'https' if row['tls_cert'] else 'http'}://{host}:{row['port']}",
        grpc_url=row["grpc_url"],
        tls_cert=row["tls_cert"],
        pid=row["pid"],
        workers=row["workers"],
        started_s=row["started_s"],
        ended_s=row["ended_s"],
        state=_state(row),
        log=str(Path(row["folder"]).parent / "log"),
    )
