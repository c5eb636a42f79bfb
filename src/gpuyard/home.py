"""The state directory `.gpuyard`: plans, runs, models and prepared data.

It is found upward from the workload file, or by `$GPUYARD_HOME`.

.gpuyard/ledger.db     SQLite in WAL mode: runs, model versions, endpoints
.gpuyard/runs/ID/      files of one run
.gpuyard/models/       model versions, one folder per version
.gpuyard/data/         prepared data, by content hash
.gpuyard/catalog/      prices, zones and quotas of the cloud, as `gpuyard catalog refresh` read them

It stays consistent when a process is killed: SQLite transactions, and files written atomically.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import ExternalError

NAME = ".gpuyard"
PRIVATE_UMASK = 0o077  # of processes that write to a state directory: runs may hold secrets
FOLDERS = ("runs", "models", "data", "catalog", "serving", "up", "workloads")
MOST_HOMES = 100  # remembered state directories
LOCK_TIMEOUT_S = 30.0  # how long to wait for another process that writes to the ledger
_CHECK_PERMISSION = "check write permission, or use another --home"
_RESTORE = "restore it from a backup, or use another --home"
_FREE_SPACE = "free disk space, or use another --home"
FIXES = {  # by a part of SQLite's message
    "locked": "the database is locked by another process; try again",
    "unable to open": _CHECK_PERMISSION,
    "readonly": _CHECK_PERMISSION,
    "not a database": _RESTORE,
    "malformed": _RESTORE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """One state directory."""

    path: Path

    @classmethod
    def for_workload(cls, file: Path) -> Home:
        """Return the state directory of a workload file.

        `$GPUYARD_HOME`, else the nearest `.gpuyard` from the file's folder upward, else a new one
        next to the file.
        """
        folder = file.resolve().parent
        return cls(path=_ambient_home() or _nearest_home(folder) or folder / NAME)

    @classmethod
    def for_folder(cls, folder: Path) -> Home:
        """Return the state directory of commands that name no workload file.

        `$GPUYARD_HOME`, else the nearest `.gpuyard` from the folder upward, else the one that was
        used last, else a new one in the folder.
        """
        path = _ambient_home() or _nearest_home(folder.resolve())
        if path is None:
            path = next((home.path for home in known_homes()), folder / NAME)
        return cls(path=path)

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def refreshed_catalog(self) -> Path:
        """The catalog layer that `gpuyard catalog refresh` writes."""
        return self.path / "catalog" / "google.json"

    @property
    def catalog_layers(self) -> tuple[Path, ...]:
        """The refreshed layer, if there is one."""
        return (self.refreshed_catalog,) if self.refreshed_catalog.is_file() else ()

    def check_writable(self) -> None:
        """Create the folder; raise ExternalError if it is not writable, before long work starts."""
        try:
            self._prepare()
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise ExternalError(
                str(self.path), f"cannot be written: {error.strerror}", "use another --home"
            ) from error

    @contextlib.contextmanager
    def connect(self, package: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
        """Open the ledger for writing; `tables[i]` migrates the package's tables to version i + 1.

        A block is one exclusive transaction: committed at its end, rolled back by an exception.
        """
        with self._opened(str(self.ledger)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # survives a power cut
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            _migrate(connection, package, tables)
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self, package: str, tables: Sequence[str]) -> Iterator[sqlite3.Connection]:
        """Open a snapshot of the ledger for reading, without blocking writers.

        A ledger or table that does not exist is not created: the block sees empty tables.
        """
        with contextlib.ExitStack() as stack:
            version = 0
            if self._exists():
                connection = stack.enter_context(self._opened(self._database_uri()))
                version = self._snapshot(connection, package)
                if 0 < version < len(tables):
                    connection.execute("ROLLBACK")
                    with self.connect(package, tables):
                        pass  # connecting migrates the tables
                    version = self._snapshot(connection, package)
                _check_version(package, version, tables)
            if version == 0:
                connection = stack.enter_context(contextlib.closing(_connected(":memory:")))
                _migrate(connection, package, tables)
            yield connection

    def _exists(self) -> bool:
        try:
            if self.path.exists() and not self.path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return self.ledger.exists()
        except OSError as error:
            raise ExternalError(
                str(self.path), f"cannot be read: {error.strerror}", "use another --home"
            ) from error

    def _prepare(self) -> None:
        """Create the folder and the ledger for this user alone; refuse links inside it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        with os.scandir(self.path) as entries:
            contents = tuple(entries)
        links = sorted(entry.name for entry in contents if entry.is_symlink())
        if links:
            what = "is a symbolic link: files would be written where it points to"
            fix = "put the folder itself there, or use a --home on that disk"
            raise ExternalError(str(self.path / links[0]), what, fix)
        for entry in contents:  # a --home that the user created may be open to others
            if entry.name in FOLDERS and entry.stat().st_mode & PRIVATE_UMASK:
                with contextlib.suppress(OSError):
                    os.chmod(entry.path, 0o700)
        self._refuse_emptied_ledger()
        # SQLite gives its log and its index the mode of the database.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        if os.access(self.path, os.W_OK):
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.ledger, flags, 0o600))

    def _refuse_emptied_ledger(self) -> None:
        # SQLite reads a file of zero bytes as a new database, so lost runs and models would look
        # like none. A new ledger is empty until its first transaction; nothing is finished then.
        if not self.ledger.exists() or self.ledger.stat().st_size:
            return
        if self.ledger.with_name("ledger.db-wal").exists():
            return
        finished = (*self.models.glob("[!.]*/[0-9]*"), *self.runs.glob("*/*/result.json"))
        if finished:
            what = f"is empty (0 bytes), but {finished[0]} exists: the ledger was truncated"
            raise ExternalError(str(self.ledger), what, _RESTORE)

    def _snapshot(self, connection: sqlite3.Connection, package: str) -> int:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        return _version(connection, package)

    def _database_uri(self) -> str:
        # SQLite creates files next to a WAL database even to read it, so a read-only folder is
        # opened as immutable. That is safe only when there is no log with pending writes.
        wal = self.ledger.with_name("ledger.db-wal")
        if os.access(self.path, os.W_OK) or wal.exists():
            return str(self.ledger)
        return f"{self.ledger.resolve().as_uri()}?immutable=1"

    @contextlib.contextmanager
    def _opened(self, uri: str) -> Iterator[sqlite3.Connection]:
        try:
            self._prepare()
            connection = _connected(uri)
        except (OSError, sqlite3.OperationalError) as error:
            raise ExternalError(
                str(self.ledger), f"cannot be opened: {error}", "use another --home"
            ) from error
        try:
            yield connection
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            fix = next((fix for part, fix in FIXES.items() if part in str(error)), _FREE_SPACE)
            raise ExternalError(str(self.ledger), str(error), fix) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.close()


def _ambient_home() -> Path | None:
    text = os.environ.get("GPUYARD_HOME", "")
    return Path(text).expanduser().absolute() if text else None


def _nearest_home(folder: Path) -> Path | None:
    """The nearest state directory upward; another user's is never taken."""
    for parent in (folder, *folder.parents):
        path = parent / NAME
        with contextlib.suppress(OSError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                return path
    return None


def known_homes() -> tuple[Home, ...]:
    """Return the state directories that this user has used, the last one first."""
    try:
        lines = (user_state_directory() / "homes").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ExternalError):
        return ()
    paths = (Path(line) for line in dict.fromkeys(lines))
    return tuple(Home(path=path) for path in paths if path.is_absolute() and path.is_dir())


def remember_home(home: Home) -> None:
    """Put a state directory first in the list of those that this user has used."""
    path = home.path.resolve()
    known = known_homes()
    if known and known[0].path == path:
        return
    lines = dict.fromkeys([str(path), *(str(other.path) for other in known)])
    # The list is a convenience: without a folder to keep it in, commands need --home.
    with contextlib.suppress(ExternalError, OSError):
        folder = private_directory(user_state_directory())
        write_atomic(folder / "homes", "\n".join([*lines][:MOST_HOMES]) + "\n", durable=False)


def _connected(uri: str) -> sqlite3.Connection:
    # isolation_level=None: transactions begin and end explicitly.
    connection = sqlite3.connect(
        uri, timeout=LOCK_TIMEOUT_S, isolation_level=None, uri=uri.startswith("file:")
    )
    connection.row_factory = sqlite3.Row
    return connection


def _version(connection: sqlite3.Connection, package: str) -> int:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rooms'").fetchone():
        return 0
    row = connection.execute("SELECT version FROM rooms WHERE room = ?", (package,)).fetchone()
    return 0 if row is None else int(row["version"])


def _check_version(package: str, version: int, tables: Sequence[str]) -> None:
    if version > len(tables):
        raise ExternalError(
            f"ledger: {package}",
            f"written by a newer gpuyard (version {version})",
            "update gpuyard, or use another --home",
        )


def _migrate(connection: sqlite3.Connection, package: str, tables: Sequence[str]) -> None:
    # `rooms` is the saved name of the table of package versions.
    connection.execute(
        "CREATE TABLE IF NOT EXISTS rooms (room TEXT PRIMARY KEY, version INTEGER NOT NULL)"
    )
    version = _version(connection, package)
    _check_version(package, version, tables)
    for statements in tables[version:]:
        for statement in filter(str.strip, statements.split(";")):
            connection.execute(statement)
    if version < len(tables):
        connection.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?)", (package, len(tables)))


def write_atomic(path: Path, contents: bytes | str, *, durable: bool = True) -> None:
    """Write a file so that readers see the old or the new contents, even after a power cut.

    A link is followed; a device or a pipe is written to directly. `durable=False` skips the
    wait for the disk, for writing many files.
    """
    data = contents.encode() if isinstance(contents, str) else contents
    temporary: Path | None = None
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        real = path.resolve() if path.is_symlink() else path
        temporary = real.parent / f".{real.name}.{os.urandom(4).hex()}"
        real.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, real)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise ExternalError(
            str(path), f"cannot be written: {error.strerror}", _write_fix(error)
        ) from error


def _write_fix(error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return "give a file inside the folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free disk space, or use another folder"
    return "use a writable folder"


def user_state_directory() -> Path:
    """Return this user's state directory: `$XDG_STATE_HOME/gpuyard`, or in `~/.local/state`.

    Raises ExternalError where the user has no home directory: the path is never relative.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "gpuyard"
    home = Path(os.environ.get("HOME", ""))
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            home = Path()
    if not home.is_absolute():
        fix = "set XDG_STATE_HOME to a folder that only you can write to"
        raise ExternalError("HOME", "is not set, and this user has no home directory", fix)
    return home / ".local" / "state" / "gpuyard"


def private_directory(path: Path) -> Path:
    """Return a directory of this user, created with mode 0700.

    Raises ExternalError if it is a link, belongs to another user, or others can write to it.
    """
    fix = f"run `chmod 700 {path}`, or use another folder"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    except OSError as error:
        what = f"cannot be created: {error.strerror}"
        raise ExternalError(str(path), what, "use a writable folder") from None
    if not stat.S_ISDIR(status.st_mode):
        raise ExternalError(str(path), "is not a directory, or is a link", "use another folder")
    if status.st_uid != os.getuid():
        raise ExternalError(str(path), "belongs to another user", "use another folder")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ExternalError(str(path), "other users can write to it", fix)
    return path
