"""The manifest file of a prepared dataset and its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpuyard.datasets.digests import CHANGED, FIX
from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.home import write_atomic

MANIFEST_FILE = "manifest.json"
MANIFEST_DIGEST_FILE = "manifest.sha256"  # in the format of sha256sum
_MAX_MANIFEST_BYTES = 1 << 28


def load_manifest(folder: Path) -> DatasetManifest:
    """Return the manifest of a prepared dataset; raise InputError if there is none."""
    file = folder / MANIFEST_FILE
    if not file.is_file():
        raise InputError.one(
            str(folder), f"no {MANIFEST_FILE} in it", "prepare it with `gpuyard data run`"
        )
    text = read_text(file, _MAX_MANIFEST_BYTES)
    digest = folder / MANIFEST_DIGEST_FILE  # data that was prepared before 0.2 has none
    if digest.is_file() and digest.read_bytes() != _digest_line(text).encode():
        raise InputError.one(str(file), CHANGED, FIX)
    return load_json(text, DatasetManifest, str(file))


def save_manifest(folder: Path, manifest: DatasetManifest) -> None:
    """Write the manifest and its digest; the folder is a prepared dataset from then on."""
    text = dump_json(manifest)
    write_atomic(folder / MANIFEST_DIGEST_FILE, _digest_line(text))
    write_atomic(folder / MANIFEST_FILE, text)


def _digest_line(text: str) -> str:
    return f"{hashlib.sha256(text.encode()).hexdigest()}  {MANIFEST_FILE}\n"
