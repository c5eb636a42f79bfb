"""Loads the shadows of a worker and follows their aliases, as canaries are followed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from gpuyard.errors import GpuyardError, InputError
from gpuyard.registry.interface import interface_difference
from gpuyard.serving.model_slot import ModelSlot
from gpuyard.serving.shadow import Shadow
from gpuyard.serving.shadow_counts import ShadowCounts
from gpuyard.serving.spec import ServedModel, ShadowSpec
from gpuyard.serving.version import Version
from gpuyard.serving.version_sources import ResolvedVersion

log = logging.getLogger("gpuyard.serving")


class ShadowLoader:
    """The shadows that the settings name."""

    __slots__ = ("_failed", "_load", "_past", "_resolve", "_specs")

    def __init__(
        self,
        specs: Iterable[ShadowSpec],
        resolve: Callable[[ServedModel], Awaitable[ResolvedVersion]],
        load: Callable[[ResolvedVersion], Awaitable[Version]],
    ) -> None:
        self._specs = tuple(specs)
        self._resolve = resolve
        self._load = load
        self._failed: set[str] = set()  # messages that were logged, and digests; not retried
        self._past: list[ShadowCounts] = []  # of replaced shadows

    async def follow(self, slots: Mapping[str, ModelSlot]) -> None:
        """Load the version that every alias points to now."""
        for spec in self._specs:
            slot = slots.get(spec.model.partition("@")[0].partition("/")[0])
            if slot is not None:
                try:
                    await self._follow(slot, spec)
                except GpuyardError as error:
                    self._log_once(f"no shadow {spec.model}: {error}")

    async def _follow(self, slot: ModelSlot, spec: ShadowSpec) -> None:
        mount = ServedModel(name=slot.mount.name, reference=spec.model)
        resolved = await self._resolve(mount)
        if resolved.bundle.kind == "language":
            fix = "compare language models with `gpuyard evaluate`"
            raise InputError.one(spec.model, "a language model has no shadow", fix)
        present = slot.shadow.version.resolved.digest if slot.shadow is not None else ""
        if resolved.digest == slot.active.resolved.digest:
            self._drop(slot)
        elif resolved.digest != present and resolved.digest not in self._failed:
            difference = interface_difference(slot.active.resolved.bundle, resolved.bundle)
            if difference:
                self._failed.add(resolved.digest)
                log.error("no shadow %s: %s", spec.model, difference)
                return
            try:
                version = await self._load(resolved)
            except GpuyardError:
                self._failed.add(resolved.digest)
                raise
            self._drop(slot)
            slot.shadow = Shadow(version, spec)
            log.info("%s: shadow version %s", slot.mount.name, resolved.version)

    def counts(self, slots: Iterable[ModelSlot]) -> tuple[ShadowCounts, ...]:
        """Return the counts of this worker's shadows, replaced ones included."""
        current = (slot.shadow.counts for slot in slots if slot.shadow is not None)
        return (*self._past, *current)

    def _drop(self, slot: ModelSlot) -> None:
        if slot.shadow is not None:
            self._past.append(slot.shadow.counts)
            slot.shadow = None

    def _log_once(self, message: str) -> None:
        if message not in self._failed:
            self._failed.add(message)
            log.error("%s", message)
