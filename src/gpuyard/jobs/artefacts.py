"""Artefacts of a run: its files with sizes and hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import RunArtefact


def add_artefacts(ledger: Ledger, run_id: str, folder: Path) -> tuple[RunArtefact, ...]:
    """Record a file, or all files of a folder, with paths relative to the run's folder."""
    base = Path(ledger.get(run_id).folder).resolve()
    paths = (
        [folder]
        if folder.is_file()
        else sorted(path for path in folder.rglob("*") if path.is_file())
    )
    rows = tuple(_artefact(path.resolve(), base) for path in paths)
    with ledger.connect() as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO artefacts VALUES (?, ?, ?, ?)",
            [(run_id, artefact.path, artefact.size_bytes, artefact.sha256) for artefact in rows],
        )
    return rows


def _artefact(path: Path, base: Path) -> RunArtefact:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    name = path.relative_to(base) if path.is_relative_to(base) else path
    return RunArtefact(path=str(name), size_bytes=size, sha256=digest)


def artefacts(ledger: Ledger, run_id: str) -> tuple[RunArtefact, ...]:
    """Return the recorded artefacts by path."""
    with ledger.reading() as connection:
        rows = connection.execute("SELECT * FROM artefacts WHERE run = ? ORDER BY path", (run_id,))
        return tuple(
            RunArtefact(path=row["path"], size_bytes=row["size_bytes"], sha256=row["sha256"])
            for row in rows
        )
