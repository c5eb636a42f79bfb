"""Resolve a served model to a version in the registry or a bundle folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.home import Home
from gpuyard.registry.bundle import ModelBundle, digest_of, read_bundle
from gpuyard.registry.registry import Registry
from gpuyard.serving.spec import ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedVersion:
    """A version that can be loaded."""

    name: str  # public name
    version: str
    folder: Path
    digest: str
    bundle: ModelBundle


def find_version(mount: ServedModel, home: Home, *, verify: bool = True) -> ResolvedVersion:
    """Resolve a served model now. Raise InputError if it does not exist or a file was modified."""
    if mount.folder:
        folder = Path(mount.folder)
        bundle = read_bundle(folder, verify=verify)
        digest = digest_of(folder)
        return ResolvedVersion(
            name=mount.name, version=digest[:12], folder=folder, digest=digest, bundle=bundle
        )
    registered = Registry(home=home).get(mount.reference, verify=verify)
    return ResolvedVersion(
        name=mount.name,
        version=str(registered.version),
        folder=registered.path,
        digest=registered.digest,
        bundle=registered.bundle,
    )
