"""The files that a run made: listed with their sizes and hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Artefact

__all__ = ["add_artefacts", "artefacts"]


def add_artefacts(ledger: Ledger, run_id: str, folder: Path) -> tuple[Artefact, ...]:
    """Lists the files of a folder, or one file; gives them. Their paths are relative to the run's folder."""
    base = Path(ledger.get(run_id).folder).resolve()
    paths = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    found = tuple(_artefact(path.resolve(), base) for path in paths)
    with ledger.connect() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO artefacts VALUES (?, ?, ?, ?)",
            [(run_id, each.path, each.size_bytes, each.sha256) for each in found],
        )
    return found


def _artefact(path: Path, base: Path) -> Artefact:
    """One file as it is now."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    shown = path.relative_to(base) if path.is_relative_to(base) else path
    return Artefact(path=str(shown), size_bytes=size, sha256=digest)


def artefacts(ledger: Ledger, run_id: str) -> tuple[Artefact, ...]:
    """The files that were listed, by path."""
    with ledger.reading() as connection:
        rows = connection.execute("SELECT * FROM artefacts WHERE run = ? ORDER BY path", (run_id,))
        return tuple(Artefact(path=row["path"], size_bytes=row["size_bytes"], sha256=row["sha256"]) for row in rows)
