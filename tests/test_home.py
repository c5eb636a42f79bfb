"""The state directory."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.errors import RefusedError
from gpuyard.home import Home, write_whole

TABLES = ("CREATE TABLE things (name TEXT PRIMARY KEY)",)


def _twice(home: Home, name: str) -> None:
    """The same thing two times in one block, which a rule of the table forbids."""
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES (?)", (name,))
        ledger.execute("INSERT INTO things VALUES (?)", (name,))


def test_a_block_is_one_transaction(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "state")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with pytest.raises(sqlite3.IntegrityError):
        _twice(home, "b")
    with home.connect("things", TABLES) as ledger:
        assert [row["name"] for row in ledger.execute("SELECT name FROM things")] == ["a"]


def test_tables_are_brought_up_to_date_and_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    newer = (*TABLES, "ALTER TABLE things ADD COLUMN size INTEGER; CREATE INDEX sizes ON things (size)")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with home.connect("things", newer) as ledger:
        assert tuple(ledger.execute("SELECT name, size FROM things").fetchone()) == ("a", None)
    with pytest.raises(RefusedError, match="newer"), home.connect("things", TABLES):
        pass
    with home.connect("others", ("CREATE TABLE others (name TEXT)",)) as ledger:
        assert ledger.execute("SELECT count(*) FROM rooms").fetchone()[0] == 2


def test_a_failed_migration_leaves_nothing(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    with pytest.raises(RefusedError), home.connect("things", (TABLES[0] + "; CREATE NONSENSE",)):
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


def test_processes_write_side_by_side(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), TABLES[0]]
    writers = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with Home(path=tmp_path).connect("things", TABLES) as ledger:
        assert ledger.execute("SELECT count(*) FROM things").fetchone()[0] == 120


def test_a_reader_waits_for_no_writer_and_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.home.WAIT_S", 0.05)
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
        ledger.execute("DELETE FROM things")  # nor does a reader keep a writer waiting
        assert seen.execute("SELECT count(*) FROM things").fetchone()[0] == 2
    with pytest.raises(RefusedError, match="readonly"), home.reading("things", TABLES) as seen:
        seen.execute("INSERT INTO things VALUES ('c')")


def test_what_nobody_may_write_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(path=tmp_path / "a folder?")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    before = sorted(home.path.iterdir())
    monkeypatch.setattr("os.access", lambda *_: False)  # as on a file system that is mounted to be read
    with home.reading("things", TABLES) as seen:
        assert [row["name"] for row in seen.execute("SELECT name FROM things")] == ["a"]
        assert sorted(home.path.iterdir()) == before  # not even SQLite's own files are made


def test_a_reader_of_older_tables_has_them_brought_up_to_date(tmp_path: Path) -> None:
    home, newer = Home(path=tmp_path), (*TABLES, "ALTER TABLE things ADD COLUMN size INTEGER")
    with home.connect("things", TABLES) as ledger:
        ledger.execute("INSERT INTO things VALUES ('a')")
    with home.reading("things", newer) as seen:
        assert tuple(seen.execute("SELECT name, size FROM things").fetchone()) == ("a", None)
    with pytest.raises(RefusedError, match="newer"), home.reading("things", TABLES):
        pass
    home.ledger.write_bytes(b"not a database, but long enough to be read as one" * 40)
    with pytest.raises(RefusedError, match="put back a copy"), home.reading("things", TABLES):
        pass


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "a.json"
    write_whole(file, "one")
    write_whole(file, b"two")
    assert file.read_bytes() == b"two"
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]
    with pytest.raises(RefusedError):
        write_whole(tmp_path / ("n" * 300), "x")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    with pytest.raises(RefusedError, match="--home"), Home(path=tmp_path / "state").connect("things", TABLES):
        pass
    with pytest.raises(RefusedError, match="--home"), Home(path=tmp_path / "state").reading("things", TABLES):
        pass


def test_a_link_is_followed_and_a_pipe_takes_what_comes(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_whole(tmp_path / "link.json", "new", durable=False)
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
    write_whole(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(RefusedError, match="Is a directory") as caught:
        write_whole(tmp_path, "text")
    assert "name a file in it" in str(caught.value)
