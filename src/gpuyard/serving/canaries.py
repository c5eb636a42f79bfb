"""Canaries of one worker: loading, comparison with the active version, rollback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from gpuyard.errors import GpuyardError, InputError
from gpuyard.registry.interface import interface_difference
from gpuyard.serving.model_slot import LoadedCanary, ModelSlot, Served
from gpuyard.serving.spec import CanaryGuardSpec, CanarySpec, ServedModel
from gpuyard.serving.version import Version
from gpuyard.serving.version_loader import VersionLoader
from gpuyard.serving.version_metrics import MetricsSnapshot, quantile_s
from gpuyard.serving.version_sources import ResolvedVersion
from gpuyard.serving.worker_board import WorkerBoard, WorkerCommands

log = logging.getLogger("gpuyard.serving")
SLOW_FROM_S = 0.005  # a faster canary is never slow: histogram buckets this small are noise


class CanaryModels(Protocol):
    """The models of a worker, as canaries need them."""

    slots: dict[str, ModelSlot]
    versions: VersionLoader

    async def resolve(self, mount: ServedModel) -> ResolvedVersion: ...
    async def in_loader(self, function: Callable[..., object], *arguments: object) -> object: ...
    def snapshots(self) -> tuple[MetricsSnapshot, ...]: ...
    def set_canary(self, slot: ModelSlot, canary: LoadedCanary | None) -> None: ...
    def drop_canary(self, slot: ModelSlot) -> None: ...
    def log_once(self, message: str, name: str, error: GpuyardError) -> None: ...


# Every worker compares the counts of all workers. The first that finds a canary worse drops it and
# writes its version to the board; the others drop it when they read the board. A version that was
# rolled back is not loaded again, whatever its alias says.
class Canaries:
    """The canaries of one worker."""

    def __init__(
        self,
        specs: tuple[CanarySpec, ...],
        board: WorkerBoard,
        models: CanaryModels,
        failed: set[str],
    ) -> None:
        self._specs = specs
        self._board = board
        self._models = models
        self._failed = failed  # digests that could not be loaded; not retried
        self.rolled_back: set[str] = set()

    async def follow(self) -> None:
        """Resolve every canary again; load those that have changed."""
        for spec in self._specs:
            name = spec.model.partition("@")[0].partition("/")[0]
            slot = self._models.slots.get(name)
            if slot is None:
                continue
            try:
                resolved = await self._models.resolve(ServedModel(name=name, reference=spec.model))
            except InputError as error:
                self._models.log_once("no canary for %s: %s", name, error)
                continue
            present = slot.canary.version.resolved.digest if slot.canary else ""
            is_active = resolved.digest == slot.active.resolved.digest
            if is_active or version_label(resolved) in self.rolled_back:
                self._models.drop_canary(slot)
            elif resolved.digest != present and resolved.digest not in self._failed:
                await self._load(slot, spec, resolved)

    async def evaluate(self) -> None:
        """Roll back every canary that does worse than the active version."""
        slots = [slot for slot in self._models.slots.values() if slot.canary is not None]
        if not slots:
            return
        now = {(item.model, item.version): item for item in self._models.snapshots()}
        for slot in slots:
            assert slot.canary is not None
            label = version_label(slot.canary.version.resolved)
            canary = now.get(_key(slot.canary.version), slot.canary.version.snapshot())
            active = counts_between(
                now.get(_key(slot.active), slot.active.snapshot()), slot.canary.start
            )
            if reason := rollback_reason(canary, active, slot.canary.spec.guard):
                await self._roll_back(slot, label, reason)

    async def _roll_back(self, slot: ModelSlot, label: str, reason: str) -> None:
        log.error("%s is rolled back: %s", label, reason)
        self._models.drop_canary(slot)
        self.rolled_back.add(label)
        await self._models.in_loader(
            self._board.update, lambda commands: commands.with_rolled_back(label, reason)
        )

    def drop_rolled_back(self, commands: WorkerCommands) -> None:
        """Drop the canaries that other workers rolled back."""
        self.rolled_back.update(label for label, _ in commands.rolled_back)
        for slot in self._models.slots.values():
            if (
                slot.canary is not None
                and version_label(slot.canary.version.resolved) in self.rolled_back
            ):
                self._models.drop_canary(slot)

    async def _load(self, slot: ModelSlot, spec: CanarySpec, resolved: ResolvedVersion) -> None:
        difference = interface_difference(slot.active.resolved.bundle, resolved.bundle)
        if difference:
            log.error("no canary for %s: %s", slot.mount.name, difference)
            self._failed.add(resolved.digest)
            return
        try:
            loaded = await self._models.versions.load(resolved)
        except GpuyardError as error:
            log.error("no canary for %s: %s", slot.mount.name, error)
            self._failed.add(resolved.digest)
            return
        if not isinstance(loaded, Version):
            return
        self._models.drop_canary(slot)
        active = _key(slot.active)
        start = next(
            (item for item in self._models.snapshots() if (item.model, item.version) == active),
            slot.active.snapshot(),
        )
        self._models.set_canary(slot, LoadedCanary(version=loaded, spec=spec, start=start))
        share = 100 * spec.share_ratio
        log.info("%s: canary version %s serves %.0f%%", slot.mount.name, resolved.version, share)


def counts_between(now: MetricsSnapshot, before: MetricsSnapshot) -> MetricsSnapshot:
    """Return the counts between two snapshots."""
    codes = dict(before.codes)
    return replace(
        now,
        codes=tuple((status, count - codes.get(status, 0)) for status, count in now.codes),
        buckets=tuple(new - old for new, old in zip(now.buckets, before.buckets, strict=True)),
        sum_s=now.sum_s - before.sum_s,
        rows=now.rows - before.rows,
        batches=now.batches - before.batches,
        failures=now.failures - before.failures,
    )


def rollback_reason(
    canary: MetricsSnapshot, active: MetricsSnapshot, guard: CanaryGuardSpec
) -> str:
    """Return why the canary must be rolled back, or an empty string while it may stay.

    Both snapshots cover the same period.
    """
    if canary.responses < guard.requests:
        return ""
    failed, failed_active = _failure_ratio(canary), _failure_ratio(active)
    if failed > failed_active + guard.errors_ratio:
        return f"failure rate {failed:.1%}, active version {failed_active:.1%}"
    p95_s, active_p95_s = quantile_s(canary, 0.95), quantile_s(active, 0.95)
    if active.responses >= guard.requests and p95_s > max(
        guard.slowdown * active_p95_s, SLOW_FROM_S
    ):
        return f"p95 latency {p95_s * 1e3:g} ms, active version {active_p95_s * 1e3:g} ms"
    return ""


def _failure_ratio(snapshot: MetricsSnapshot) -> float:
    if not snapshot.responses:
        return 0.0
    # At most 1: a failure is counted before its response is.
    return min(1.0, snapshot.failures / snapshot.responses)


def version_label(resolved: ResolvedVersion) -> str:
    """Return NAME/VERSION."""
    return f"{resolved.name}/{resolved.version}"


def _key(version: Served) -> tuple[str, str]:
    return version.resolved.name, version.resolved.version
