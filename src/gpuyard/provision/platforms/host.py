"""Parts of startup scripts that every virtual machine shares: buckets as folders, and the token of gated models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuyard.provision.launch import Mount

__all__ = ["FOLDER", "mount_lines", "token_line"]

FOLDER = "/opt/gpuyard"


def mount_lines(mounts: tuple[Mount, ...]) -> Iterator[str]:
    """Mounts buckets as folders."""
    if not mounts:
        return
    yield (Path(__file__).parent / "data" / "gcsfuse.sh").read_text(encoding="utf-8").rstrip()
    for mount in mounts:
        options = ["--implicit-dirs", "-o allow_other", "--file-mode=666", "--dir-mode=777"]
        options += [f"--only-dir={mount.folder}"] if mount.folder else []
        options += ["-o ro"] if mount.is_read_only else []
        yield f"mkdir -p {mount.path}"
        yield f"mountpoint -q {mount.path} || gcsfuse {' '.join(options)} {mount.bucket} {mount.path}"


def token_line(secret: str) -> str:
    """Reads the access token of gated models, where the project keeps one; it is never written to a disk."""
    got = f"$(gcloud secrets versions access latest --secret={secret} 2>/dev/null || true)"
    return f"HF_TOKEN={got}; export HF_TOKEN"
