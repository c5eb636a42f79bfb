"""Where a version comes from: the registry by reference, or a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.home import Home
from gpuyard.registry import Bundle, Registry, digest_of, read_bundle
from gpuyard.serving.spec import Mount

__all__ = ["Found", "find_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A version that can be loaded."""

    name: str  # that clients use
    version: str
    folder: Path
    digest: str
    bundle: Bundle


def find_version(mount: Mount, home: Home, *, verify: bool = True) -> Found:
    """What the mount names now; InputError if there is none, or if a file of it was changed."""
    if mount.folder:
        folder = Path(mount.folder)
        bundle = read_bundle(folder, verify=verify)
        digest = digest_of(folder)
        return Found(name=mount.name, version=digest[:12], folder=folder, digest=digest, bundle=bundle)
    found = Registry(home=home).get(mount.reference, verify=verify)
    return Found(
        name=mount.name, version=str(found.version), folder=found.path, digest=found.digest, bundle=found.bundle
    )
