"""Loads versions for a worker: tensors in ONNX Runtime, language models here or in an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from gpuyard.registry.bundle import TRANSFORM, WEIGHTS
from gpuyard.serving.completions import LanguageVersion
from gpuyard.serving.engines import engine_addresses
from gpuyard.serving.language import LanguageEngine
from gpuyard.serving.model_slot import Served
from gpuyard.serving.proxied_model import ProxiedVersion
from gpuyard.serving.spec import ServerSettings
from gpuyard.serving.version import LoadedVersion, Transform, Version, load_version
from gpuyard.serving.version_sources import ResolvedVersion


class VersionLoader:
    """Loads in one thread, while the event loop serves."""

    __slots__ = ("_engines", "_loaders", "_pool", "_settings", "_transforms")

    def __init__(
        self,
        settings: ServerSettings,
        transforms: Callable[[Path], Transform],
        loaders: ThreadPoolExecutor,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._settings = settings
        self._transforms = transforms
        self._loaders = loaders
        self._pool = pool
        self._engines = engine_addresses()

    async def load(self, resolved: ResolvedVersion) -> Served:
        """Load a version. Raise InputError if it cannot be served."""
        if resolved.bundle.kind != "language":
            return Version(await self._parts(resolved), self._settings.batch, self._pool)
        address = self._engines.get(resolved.name)
        if address is not None:
            return ProxiedVersion(resolved, address)
        loop = asyncio.get_running_loop()
        engine = await loop.run_in_executor(
            self._loaders, LanguageEngine, resolved.folder / WEIGHTS
        )
        return LanguageVersion(resolved, engine, self._pool)

    async def load_shadow(self, resolved: ResolvedVersion) -> Version:
        """Load a version that computes in a thread, so that it does not delay answers."""
        # Its rows are those of the active version, which counts them for drift.
        parts = replace(await self._parts(resolved), inline=False, profile=None)
        return Version(parts, self._settings.batch, self._pool)

    async def _parts(self, resolved: ResolvedVersion) -> LoadedVersion:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loaders, self._read, resolved)

    def _read(self, resolved: ResolvedVersion) -> LoadedVersion:
        path, settings = resolved.folder / TRANSFORM, self._settings
        transform = self._transforms(path) if path.is_file() else None
        return load_version(resolved, transform, settings.batch, allow_code=settings.allow_code)
