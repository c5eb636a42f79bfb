"""Kept machine code: a file for each loop and kinds of arguments, beside the sources or in the user's cache."""

from __future__ import annotations

import contextlib
import marshal
import os
from dataclasses import dataclass

from gpuyard.compiled.arguments import Result
from gpuyard.compiled.fingerprint import digest
from gpuyard.compiled.image import Image

__all__ = ["Kept", "keep", "kept"]

_MARK = b"gpuyard loop 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of a loop for some kinds of arguments."""

    made_from: bytes  # the fingerprint of its sources
    image: Image | None  # None: it needs Numba at every start
    result: Result = None
    why: str = ""  # it needs Numba


def kept(source: str, name: str, made_from: bytes) -> Kept | None:
    """What was kept under a name for a source file; None if nothing is, or it is spoilt or of other sources."""
    for folder in _folders(source):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            found = _read(file.read())
            if found and found.made_from == made_from:
                return found
    return None


def keep(source: str, name: str, value: Kept) -> bool:
    """Keeps it in the first folder that can be written; False if there is none."""
    image = value.image
    parts = None if image is None else (image.code, image.entry, image.own, image.foreign)
    content = marshal.dumps((value.made_from, parts, value.result, value.why))
    for folder in _folders(source):
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"{name}.{os.urandom(4).hex()}")
            try:
                with open(path, "xb") as file:
                    file.write(_MARK + digest(content) + content)
                os.replace(path, os.path.join(folder, name))  # at once: who reads sees the old or the new
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise
            return True
    return False


def _read(content: bytes) -> Kept | None:
    """The value of a file; None if it is not as it was written."""
    start = len(_MARK) + len(digest())
    if not content.startswith(_MARK) or digest(content[start:]) != content[len(_MARK) : start]:
        return None
    made_from, parts, result, why = marshal.loads(content[start:])
    image = None
    if parts:
        code, entry, own, foreign = parts
        image = Image(code=code, entry=entry, own=own, foreign=foreign)
    return Kept(made_from=made_from, image=image, result=result, why=why)


def _folders(source: str) -> tuple[str, str]:
    """Where the files of a source may be: beside it as Python's own, else in the user's cache."""
    beside = os.path.dirname(os.path.abspath(source))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(beside, "__pycache__"), os.path.join(cache, "gpuyard", digest(beside.encode()).hex())
