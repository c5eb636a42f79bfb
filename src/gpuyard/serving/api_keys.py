"""API keys of a server: a file with the SHA-256 of every key, re-read when it changes.

    # name  sha256
    mobile  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Keys are 256 random bits, so that a plain hash suffices: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.read import read_text
from gpuyard.errors import GpuyardError, InputError, Problem, external_error_from
from gpuyard.home import write_atomic

log = logging.getLogger("gpuyard.serving")
PREFIX = "gpuyard-"  # so that scanners recognize a key that was published by mistake
MAX_BYTES = 1_000_000
MAX_KEY_CHARS = 200
_LINE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,99})\s+(?P<digest>[0-9a-f]{64})")
_FIX = "create keys with `gpuyard serve --add-api-key NAME --api-keys FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedKey:
    """The name of a key and its SHA-256."""

    name: str
    digest: str


def read_keys(path: Path) -> tuple[HashedKey, ...]:
    """Return the keys of a file. Raise InputError if a line is not a name and a hash."""
    keys: dict[str, HashedKey] = {}
    problems = []
    for number, line in enumerate(read_text(path, MAX_BYTES).splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        where = f"{path}:{number}"  # without the line itself: it may be a key in plain text
        if match is None:
            problems.append(Problem(where=where, what="is not NAME and SHA-256", fix=_FIX))
        elif match["name"] in keys:
            problems.append(
                Problem(where=where, what=f'"{match["name"]}" is there twice', fix="rename one")
            )
        else:
            keys[match["name"]] = HashedKey(name=match["name"], digest=match["digest"])
    if not keys and not problems:
        problems.append(Problem(where=str(path), what="has no key", fix=_FIX))
    if problems:
        raise InputError(problems)
    return tuple(keys.values())


def add_key(path: Path, name: str) -> str:
    """Append the hash of a new key to the file and return the key, which is not saved."""
    known = read_keys(path) if path.exists() else ()
    if name in {key.name for key in known}:
        raise InputError.one(f'API key "{name}"', f"is in {path}", "use another name, or delete it")
    key = PREFIX + secrets.token_urlsafe(32)
    line = f"{name} {_digest(key)}"
    if not _LINE.fullmatch(line):
        fix = "use letters, digits, dots, dashes and underscores, at most 100"
        raise InputError.one(f'API key "{name[:100]}"', "is not a valid name", fix)
    before = read_text(path, MAX_BYTES) if path.exists() else ""
    separator = "\n" if before and not before.endswith("\n") else ""
    try:
        path.touch(mode=0o600)
        write_atomic(path, f"{before}{separator}{line}\n")
        os.chmod(path, 0o600)
    except OSError as error:
        raise external_error_from(error, str(path)) or error from error
    return key


class ApiKeys:
    """The keys that a worker accepts, up to date with their file."""

    __slots__ = ("_keys", "_mark", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = self._stat()
        self._keys = read_keys(path)

    def name_of(self, given: str) -> str:
        """Return the name of the key, or an empty string; compares with every key."""
        digest, name = _digest(given[:MAX_KEY_CHARS]), ""
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                name = key.name
        return name

    def refresh(self) -> None:
        """Read the file again if it has changed; keep the keys if it is wrong now."""
        mark = self._stat()
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._keys = read_keys(self._path)
        except GpuyardError as error:
            log.error("API keys are unchanged: %s", error)

    def _stat(self) -> tuple[int, int]:
        try:
            stat = self._path.stat()
        except OSError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_ino


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
