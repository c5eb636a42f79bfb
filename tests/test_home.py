"""The state directory."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.home import (
    Home,
    known_homes,
    private_directory,
    remember_home,
    user_state_directory,
    write_atomic,
)

TABLES = ("CREATE TABLE things (name TEXT PRIMARY KEY)",)


def _insert_twice(home: Home, name: str) -> None:
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES (?)", (name,))
        ledger.execute("INSERT INTO things VALUES (?)", (name,))


def test_connect_commits_or_rolls_back_block(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "state")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with pytest.raises(sqlite3.IntegrityError):
        _insert_twice(home, "b")
    with home.connect("things", TABLES) as ledger:
        assert [row["name"] for row in ledger.execute("SELECT name FROM things")] == ["a"]


def test_connect_migrates_tables_and_rejects_newer_ledger(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    newer = (
        *TABLES,
        "ALTER TABLE things ADD COLUMN size INTEGER; CREATE INDEX sizes ON things (size)",
    )
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with home.connect("things", newer) as ledger:
        assert tuple(ledger.execute("SELECT name, size FROM things").fetchone()) == ("a", None)
    with pytest.raises(ExternalError, match="newer"), home.connect("things", TABLES):
        pass
    with home.connect("others", ("CREATE TABLE others (name TEXT)",)) as ledger:
        assert ledger.execute("SELECT count(*) FROM rooms").fetchone()[0] == 2


def test_failed_migration_rolls_back(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    with pytest.raises(ExternalError), home.connect("things", (TABLES[0] + "; CREATE NONSENSE",)):
        pass
    with home.connect("things", TABLES) as ledger:
        assert ledger.execute("SELECT count(*) FROM things").fetchone()[0] == 0


WRITER = """
import sys
from pathlib import Path
from gpuyard.home import Home
for number in range(40):
    with Home(path=Path(sys.argv[1])).connect("things", (sys.argv[2],)) as ledger:
        ledger.execute("INSERT INTO things VALUES (?)", (f"{sys.argv[3]}-{number}",))
"""


@pytest.mark.slow
def test_processes_write_concurrently(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), TABLES[0]]
    writers = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with Home(path=tmp_path).connect("things", TABLES) as ledger:
        assert ledger.execute("SELECT count(*) FROM things").fetchone()[0] == 120


def test_reader_neither_blocks_nor_creates_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.home.LOCK_TIMEOUT_S", 0.05)
    home = Home(path=tmp_path / "state")
    with home.reading("things", TABLES) as ledger:
        assert ledger.execute("SELECT count(*) FROM things").fetchone()[0] == 0
    assert not home.path.exists()
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with home.connect("things", TABLES) as ledger, home.reading("things", TABLES) as seen:
        ledger.execute("INSERT INTO things VALUES ('b')")
        assert [row["name"] for row in seen.execute("SELECT name FROM things")] == ["a"]
        with home.reading("others", ("CREATE TABLE others (name TEXT)",)) as others:
            assert others.execute("SELECT count(*) FROM others").fetchone()[0] == 0
    with home.reading("things", TABLES) as seen, home.connect("things", TABLES) as ledger:
        ledger.execute("DELETE FROM things")  # a reader does not block a writer
        assert seen.execute("SELECT count(*) FROM things").fetchone()[0] == 2
    with pytest.raises(ExternalError, match="readonly"), home.reading("things", TABLES) as seen:
        seen.execute("INSERT INTO things VALUES ('c')")


def test_read_only_home_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(path=tmp_path / "a folder?")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    before = sorted(home.path.iterdir())
    monkeypatch.setattr("os.access", lambda *_: False)  # as on a read-only file system
    with home.reading("things", TABLES) as seen:
        assert [row["name"] for row in seen.execute("SELECT name FROM things")] == ["a"]
        assert sorted(home.path.iterdir()) == before  # SQLite creates no files either


def test_reader_migrates_older_tables(tmp_path: Path) -> None:
    home, newer = Home(path=tmp_path), (*TABLES, "ALTER TABLE things ADD COLUMN size INTEGER")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with home.reading("things", newer) as seen:
        assert tuple(seen.execute("SELECT name, size FROM things").fetchone()) == ("a", None)
    with pytest.raises(ExternalError, match="newer"), home.reading("things", TABLES):
        pass
    home.ledger.write_bytes(b"not a database, but long enough to be read as one" * 40)
    with (
        pytest.raises(ExternalError, match="restore it from a backup"),
        home.reading("things", TABLES),
    ):
        pass


def test_write_atomic_replaces_file_without_leftovers(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "a.json"
    write_atomic(file, "one")
    write_atomic(file, b"two")
    assert file.read_bytes() == b"two"
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]
    with pytest.raises(ExternalError):
        write_atomic(tmp_path / ("n" * 300), "x")


def test_home_that_is_a_file_raises_external_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    with (
        pytest.raises(ExternalError, match="--home"),
        Home(path=tmp_path / "state").connect("things", TABLES),
    ):
        pass
    with (
        pytest.raises(ExternalError, match="--home"),
        Home(path=tmp_path / "state").reading("things", TABLES),
    ):
        pass


def test_write_atomic_follows_links_and_writes_to_devices(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_atomic(tmp_path / "link.json", "new", durable=False)
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
    write_atomic(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(ExternalError, match="Is a directory") as caught:
        write_atomic(tmp_path, "text")
    assert "give a file inside the folder" in str(caught.value)


def test_home_and_ledger_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = Home(path=tmp_path / "state")
        with home.connect("things", TABLES) as ledger:
            ledger.execute("INSERT INTO things VALUES ('a')")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.path.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert set(modes) >= {"ledger.db", "ledger.db-wal"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "runs", "models", "data"])
def test_link_inside_the_home_is_refused(tmp_path: Path, name: str) -> None:
    home = Home(path=tmp_path / "state")
    home.path.mkdir()
    (home.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExternalError, match="symbolic link"):
        home.check_writable()
    with pytest.raises(ExternalError, match="symbolic link"), home.connect("things", TABLES):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_emptied_ledger_next_to_models_is_named(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "state")
    with home.connect("things", TABLES):
        pass
    (home.models / "churn" / "1").mkdir(parents=True)
    for suffix in ("-wal", "-shm"):
        home.ledger.with_name(f"ledger.db{suffix}").unlink(missing_ok=True)
    home.ledger.write_bytes(b"")
    with pytest.raises(ExternalError, match="0 bytes"), home.reading("things", TABLES):
        pass
    with pytest.raises(ExternalError, match="0 bytes"), home.connect("things", TABLES):
        pass


def test_new_ledger_is_empty_while_a_run_is_created(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "state")
    (home.runs / "ab12cd").mkdir(parents=True)
    home.ledger.touch()
    with home.reading("things", TABLES):
        pass
    with home.connect("things", TABLES):
        pass


def test_user_state_directory_is_absolute_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_state_directory() == tmp_path / ".local" / "state" / "gpuyard"

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("gpuyard.home.pwd.getpwuid", unknown)
    with pytest.raises(ExternalError, match="no home directory"):
        user_state_directory()


def test_private_directory_refuses_links_and_folders_that_others_can_write_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ExternalError, match="is a link"):
        private_directory(tmp_path / "link")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ExternalError, match="other users can write"):
        private_directory(tmp_path / "open")


def test_home_is_searched_upward_then_the_last_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GPUYARD_HOME", raising=False)
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "sub").mkdir(parents=True)
    other.mkdir()
    file = project / "sub" / "workload.yaml"
    assert Home.for_workload(file).path == project / "sub" / ".gpuyard"  # a new one
    assert Home.for_folder(other).path == other / ".gpuyard"
    (project / ".gpuyard").mkdir()
    assert Home.for_workload(file).path == project / ".gpuyard"
    assert Home.for_folder(project / "sub").path == project / ".gpuyard"
    remember_home(Home(path=project / ".gpuyard"))
    assert Home.for_folder(other).path == project / ".gpuyard"
    assert Home.for_workload(other / "workload.yaml").path == other / ".gpuyard"
    monkeypatch.setenv("GPUYARD_HOME", str(tmp_path / "team"))
    assert Home.for_workload(file).path == Home.for_folder(other).path == tmp_path / "team"


def test_known_homes_are_those_that_exist_the_last_used_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    homes = [Home(path=tmp_path / name) for name in "abc"]
    for home in (*homes, homes[1]):
        home.path.mkdir(exist_ok=True)
        remember_home(home)
    assert known_homes() == (homes[1], homes[2], homes[0])
    homes[2].path.rmdir()
    assert known_homes() == (homes[1], homes[0])
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    remember_home(homes[0])  # nowhere to write the list: no error
    assert known_homes() == ()
