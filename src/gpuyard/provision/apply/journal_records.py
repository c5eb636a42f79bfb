"""Records of folders whose journal lists resources that may exist, in the user's state directory.

A journal that is deleted or emptied looks like a folder that was never applied: apply would create
its resources again, and destroy would delete nothing. The record says that there was a journal. It
is written before the first creation is recorded, and removed after the last deletion is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuyard.errors import InputError
from gpuyard.home import private_directory, write_atomic
from gpuyard.provision.apply.journal_chain import HEADS
from gpuyard.provision.apply.signing import SigningKey

FOLDERS = "folders"


def save_record(path: Path, journal: str, key: SigningKey) -> None:
    """Record that a journal may list resources."""
    file = _record(path, key)
    private_directory(file.parent.parent)
    private_directory(file.parent)
    write_atomic(file, f"{journal}\n{path.resolve()}\n")


def remove_records(journal: str, key: SigningKey) -> None:
    """Remove the records of a journal, also those of folders from which it was moved."""
    for file in (key.folder / HEADS / FOLDERS).glob("*"):
        if _journal_of(file) == journal:
            file.unlink(missing_ok=True)


def check_record(path: Path, journal: str, key: SigningKey) -> None:
    """Raise InputError unless the journal in a folder is the recorded one.

    Args:
        path: The journal.
        journal: Its id; empty if it is missing or empty.
        key: The key of this user.
    """
    file = _record(path, key)
    recorded = _journal_of(file)
    if not recorded or recorded == journal:
        return
    what = "is missing, empty or another one, but an apply of this folder created resources"
    fix = (
        f"restore the file; or delete the resources by label with `gpuyard sweep`, and then {file}"
    )
    raise InputError.one(str(path), what, fix)


def _record(path: Path, key: SigningKey) -> Path:
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    return key.folder / HEADS / FOLDERS / name


def _journal_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0]
    except FileNotFoundError:
        return ""
