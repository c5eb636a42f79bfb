"""Dataset versions: hashes of the data, the code of this package, and the settings."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from gpuyard.datasets.manifest import SourceFile
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.encode import dump_json


@functools.cache
def code_version() -> str:
    """Return a hash of the code that prepares data."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def version_of(spec: DataSpec, files: Iterable[SourceFile]) -> str:
    """Return a hash of data, code and settings; the location of the files does not matter."""
    digest = hashlib.sha256(code_version().encode())
    digest.update(dump_json(spec).encode())
    for number, step in enumerate(spec.steps):
        digest.update(step.named_settings(f"steps[{number}]")[1].file_contents())
    for file in files:
        digest.update(f"{Path(file.path).name}:{file.size_bytes}:{file.fingerprint};".encode())
    return digest.hexdigest()[:16]
