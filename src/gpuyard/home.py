"""The state directory: runs, models and prepared data beside the workload, consistent whenever it is killed.

.gpuyard/ledger.db     SQLite in WAL mode: runs, model versions, endpoints; every room owns its tables
.gpuyard/runs/ID/      what one run wrote
.gpuyard/models/       model versions, a folder each
.gpuyard/data/         prepared data, by the hash of what made it
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import RefusedError

__all__ = ["Home", "write_whole"]

WAIT_S = 30.0  # for another process that writes to the ledger
FREE = "free disk space, or name another --home"
FIXES = {  # by a part of what SQLite says
    "locked": "another process writes to it for long; try again",
    "unable to open": "ask for the right to write there, or name another --home",
    "readonly": "ask for the right to write there, or name another --home",
    "not a database": "put back a copy of it, or name another --home",
    "malformed": "put back a copy of it, or name another --home",
}


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

    def check_writable(self) -> None:
        """Makes the folder; RefusedError if nothing can be written there, for work that takes long to say so first."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise RefusedError(str(self.path), f"cannot be written: {error.strerror}", "name another --home") from error

    @contextlib.contextmanager
    def connect(self, room: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
        """The ledger with the room's tables, to write: `tables[i]` takes it from version i to i + 1.

        One transaction a block: committed at its end, rolled back by an exception. Nobody else writes meanwhile.
        """
        with self._opened(str(self.ledger)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a run that was told to be done stays done
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            _migrate(connection, room, tables)
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self, room: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
        """The ledger as it is now, to read: waits for no writer and keeps none waiting.

        What has nothing to read yet is not made for it: the block then sees empty tables.
        """
        with contextlib.ExitStack() as stack:
            version = 0
            if self._is_there():
                connection = stack.enter_context(self._opened(self._place()))
                version = self._snapshot(connection, room)
                if 0 < version < len(tables):
                    connection.execute("ROLLBACK")
                    with self.connect(room, tables):
                        pass  # its tables are brought up to date
                    version = self._snapshot(connection, room)
                _check_version(room, version, tables)
            if version == 0:
                connection = stack.enter_context(contextlib.closing(_connected(":memory:")))
                _migrate(connection, room, tables)
            yield connection

    def _is_there(self) -> bool:
        """Whether there is a ledger."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return self.ledger.exists()
        except OSError as error:
            raise RefusedError(str(self.path), f"cannot be read: {error.strerror}", "name another --home") from error

    def _snapshot(self, connection: sqlite3.Connection, room: str) -> int:
        """Begins to read; gives the version of the room's tables."""
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        return _version(connection, room)

    def _place(self) -> str:
        """What SQLite is to open for reading: where nothing can be written, a file that nobody changes."""
        alone = not os.access(self.path, os.W_OK) and not self.ledger.with_name("ledger.db-wal").exists()
        return f"{self.ledger.resolve().as_uri()}?immutable=1" if alone else str(self.ledger)

    @contextlib.contextmanager
    def _opened(self, place: str) -> Iterator[sqlite3.Connection]:
        """A connection; what is not committed at the end of the block is undone."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            connection = _connected(place)
        except (OSError, sqlite3.OperationalError) as error:
            raise RefusedError(str(self.ledger), f"cannot be opened: {error}", "name another --home") from error
        try:
            yield connection
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            fix = next((words for part, words in FIXES.items() if part in str(error)), FREE)
            raise RefusedError(str(self.ledger), str(error), fix) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.close()


def _connected(place: str) -> sqlite3.Connection:
    """A connection whose transactions are begun and ended by hand."""
    connection = sqlite3.connect(place, timeout=WAIT_S, isolation_level=None, uri=place.startswith("file:"))
    connection.row_factory = sqlite3.Row
    return connection


def _version(connection: sqlite3.Connection, room: str) -> int:
    """The version of the room's tables; 0 where it has none."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rooms'").fetchone():
        return 0
    row = connection.execute("SELECT version FROM rooms WHERE room = ?", (room,)).fetchone()
    return 0 if row is None else int(row["version"])


def _check_version(room: str, version: int, tables: Sequence[str]) -> None:
    """Refuses tables that this gpuyard does not know."""
    if version > len(tables):
        raise RefusedError(
            f"ledger: {room}",
            f"written by a newer gpuyard (version {version})",
            "update gpuyard, or name another --home",
        )


def _migrate(connection: sqlite3.Connection, room: str, tables: Sequence[str]) -> None:
    """Brings the room's tables up to date, inside the open transaction."""
    connection.execute("CREATE TABLE IF NOT EXISTS rooms (room TEXT PRIMARY KEY, version INTEGER NOT NULL)")
    version = _version(connection, room)
    _check_version(room, version, tables)
    for statements in tables[version:]:
        for statement in filter(str.strip, statements.split(";")):
            connection.execute(statement)
    if version < len(tables):
        connection.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?)", (room, len(tables)))


def write_whole(path: Path, contents: bytes | str, *, durable: bool = True) -> None:
    """Writes the file so that a reader sees the old contents or the new, never a part, also after a power cut.

    A link is followed; a device or a pipe takes the contents as they come. Of many files, `durable=False` spares the
    wait for the disk.
    """
    data = contents.encode() if isinstance(contents, str) else contents
    name: Path | None = None
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        real = path.resolve() if path.is_symlink() else path
        name = real.parent / f".{real.name}.{os.urandom(4).hex()}"
        real.parent.mkdir(parents=True, exist_ok=True)
        with name.open("xb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(name, real)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)
        raise RefusedError(str(path), f"cannot be written: {error.strerror}", _write_fix(error)) from error


def _write_fix(error: OSError) -> str:
    """What helps where a file cannot be written."""
    if isinstance(error, IsADirectoryError):
        return "name a file in it"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free disk space, or name another folder"
    return "name a folder that you may write to"
