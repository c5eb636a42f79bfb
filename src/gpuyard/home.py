"""The state directory: runs, models and prepared data beside the workload, consistent whenever it is killed.

.gpuyard/ledger.db     SQLite in WAL mode: runs, model versions, endpoints; every room owns its tables
.gpuyard/runs/ID/      what one run wrote
.gpuyard/models/       model versions, a folder each
.gpuyard/data/         prepared data, by the hash of what made it
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import RefusedError

__all__ = ["Home", "write_whole"]

WAIT_S = 30.0  # for another process that writes to the ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """One state directory."""

    path: Path

    @classmethod
    def beside(cls, file: Path) -> Home:
        """The state directory of a workload file."""
        return cls(path=file.resolve().parent / ".gpuyard")

    @property
    def ledger(self) -> Path:
        """The database."""
        return self.path / "ledger.db"

    @property
    def runs(self) -> Path:
        """A folder for every run."""
        return self.path / "runs"

    @property
    def models(self) -> Path:
        """A folder for every model, with one for every version."""
        return self.path / "models"

    @property
    def data(self) -> Path:
        """Prepared data, by the hash of what made it."""
        return self.path / "data"

    @contextlib.contextmanager
    def connect(self, room: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
        """The ledger with the room's tables: `tables[i]` takes it from version i to i + 1; one transaction a block.

        The transaction is committed at the end of the block and rolled back by an exception.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.ledger, timeout=WAIT_S, isolation_level=None)
        except (OSError, sqlite3.OperationalError) as error:
            raise RefusedError(str(self.ledger), f"cannot be opened: {error}", "name another --home") from error
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a run that was told to be done stays done
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            _migrate(connection, room, tables)
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.IntegrityError):
                raise RefusedError(str(self.ledger), str(error), "free disk space, or name another --home") from error
            raise
        finally:
            connection.close()


def _migrate(connection: sqlite3.Connection, room: str, tables: Sequence[str]) -> None:
    """Brings the room's tables up to date, inside the open transaction."""
    connection.execute("CREATE TABLE IF NOT EXISTS rooms (room TEXT PRIMARY KEY, version INTEGER NOT NULL)")
    row = connection.execute("SELECT version FROM rooms WHERE room = ?", (room,)).fetchone()
    version = 0 if row is None else int(row["version"])
    if version > len(tables):
        raise RefusedError(
            f"ledger: {room}",
            f"written by a newer gpuyard (version {version})",
            "update gpuyard, or name another --home",
        )
    for statements in tables[version:]:
        for statement in filter(str.strip, statements.split(";")):
            connection.execute(statement)
    if version < len(tables):
        connection.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?)", (room, len(tables)))


def write_whole(path: Path, contents: bytes | str) -> None:
    """Writes the file so that a reader sees the old contents or the new, never a part, also after a power cut."""
    name = path.parent / f".{path.name}.{os.urandom(4).hex()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with name.open("xb") as file:
            file.write(contents.encode() if isinstance(contents, str) else contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            name.unlink(missing_ok=True)
        raise RefusedError(
            str(path), f"cannot be written: {error.strerror}", "free disk space, or name another folder"
        ) from error
