"""Versions by contents: of data, of the code of this room, and of both with the settings."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from gpuyard.datasets.manifest import SourceFile
from gpuyard.datasets.spec import DataSpec
from gpuyard.document import dump_json

__all__ = ["code_version", "version_of"]


@functools.cache
def code_version() -> str:
    """A hash of the code that prepares data."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(str(path.relative_to(here)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def version_of(spec: DataSpec, files: Iterable[SourceFile]) -> str:
    """A hash of data, code and settings; where the files lie does not matter."""
    digest = hashlib.sha256(code_version().encode())
    digest.update(dump_json(spec).encode())
    for step in spec.steps:
        digest.update(step.tokenise.contents() if step.tokenise else b"")
    for file in files:
        digest.update(f"{Path(file.path).name}:{file.size_bytes}:{file.fingerprint};".encode())
    return digest.hexdigest()[:16]
