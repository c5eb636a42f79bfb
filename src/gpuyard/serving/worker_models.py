"""Models of one worker: loading, and hot swap while requests are served."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.registry.interface import interface_difference
from gpuyard.serving.canaries import Canaries, version_label
from gpuyard.serving.endpoints import Canary, Endpoints
from gpuyard.serving.model_slot import LoadedCanary, ModelSlot
from gpuyard.serving.monitoring import Monitoring, monitoring_of
from gpuyard.serving.proxied_model import ProxiedVersion
from gpuyard.serving.shadow_loader import ShadowLoader
from gpuyard.serving.spec import ServedModel, ServerSettings
from gpuyard.serving.version import Transform, Version
from gpuyard.serving.version_loader import VersionLoader
from gpuyard.serving.version_metrics import MetricsSnapshot, sum_snapshots
from gpuyard.serving.version_sources import ResolvedVersion, find_version
from gpuyard.serving.worker_board import WorkerBoard, WorkerCommands, WorkerReport

log = logging.getLogger("gpuyard.serving")
MAX_VERSIONS = 32  # computing at the same time in one worker


class WorkerModels:
    """All models of one worker."""

    def __init__(self, settings: ServerSettings, transforms: Callable[[Path], Transform]) -> None:
        self._settings = settings
        self._home = Home(path=Path(settings.home))
        self._board = WorkerBoard(Path(settings.folder))
        self._loading = asyncio.Lock()
        self._loaders = ThreadPoolExecutor(1, "load")
        self._pool = ThreadPoolExecutor(MAX_VERSIONS, "infer")  # one thread per version at a time
        self.versions = VersionLoader(settings, transforms, self._loaders, self._pool)
        self._mounts = {mount.name: mount for mount in settings.mounts}
        self._logged: set[str] = set()
        self._refused: dict[str, str] = {}  # model -> digest of a version with another interface
        self._failed: set[str] = set()  # digests that could not be loaded; not retried
        self._past: list[MetricsSnapshot] = []  # of replaced versions
        self._recorded: tuple[tuple[str, ...], tuple[Canary, ...]] | None = None
        self.slots: dict[str, ModelSlot] = {}
        self.paths: dict[str, ModelSlot | Version] = {}
        self.swaps = 0
        self._canaries = Canaries(settings.canaries, self._board, self, self._failed)
        self._shadows = ShadowLoader(settings.shadows, self.resolve, self.versions.load_shadow)

    @property
    def rolled_back(self) -> int:
        """Number of canaries that were rolled back."""
        return len(self._canaries.rolled_back)

    @property
    def refused(self) -> int:
        """Number of models whose alias points to a version that their clients cannot use."""
        return len(self._refused)

    async def start(self) -> None:
        """Load every model. Raise InputError if one cannot be loaded."""
        for mount in self._settings.mounts:
            await self._mount(mount, await self.in_loader(find_version, mount, self._home))
        await self._apply_commands(self._board.commands())
        await self._canaries.follow()
        await self._shadows.follow(self.slots)
        await self._record_endpoints()
        self.publish()

    async def load(self, name: str, reference: str) -> ResolvedVersion:
        """Load a reference in this worker now, and in the other workers within a second."""
        known = self._mounts.get(name)
        mount = ServedModel(name=name, reference=reference) if reference or known is None else known
        if not mount.folder and not mount.reference:
            mount = ServedModel(name=name, reference=name)
        resolved: ResolvedVersion = await self.in_loader(find_version, mount, self._home)
        await self._mount(mount, resolved)
        await self.in_loader(
            self._board.update, lambda commands: commands.with_load(name, mount.reference)
        )
        await self._record_endpoints()
        return resolved

    async def unload(self, name: str) -> None:
        await self.in_loader(self._board.update, lambda commands: commands.with_unload(name))
        self._unload(name)
        await self._record_endpoints()

    async def follow(self) -> None:
        """Resolve every served model again and swap those that have changed."""
        for mount in list(self._mounts.values()):
            try:
                await self._follow(mount)
            except GpuyardError as error:
                self.log_once("%s is unchanged: %s", mount.name, error)
        await self._canaries.follow()
        await self._shadows.follow(self.slots)
        await self._record_endpoints()

    async def _follow(self, mount: ServedModel) -> None:
        resolved = await self.resolve(mount)
        slot = self.slots.get(mount.name)
        if slot is not None and resolved.digest == slot.active.resolved.digest:
            self._refused.pop(mount.name, None)
            return
        if slot is None or resolved.digest in self._failed:
            return
        if isinstance(slot.active, ProxiedVersion):
            what = "a new version is not swapped into a running engine"
            raise InputError.one(mount.name, what, "restart the service")
        difference = interface_difference(slot.active.resolved.bundle, resolved.bundle)
        if difference:
            self._refuse(slot, resolved, difference)
            return
        self._refused.pop(mount.name, None)
        try:
            await self._mount(mount, await self.in_loader(find_version, mount, self._home))
        except GpuyardError:
            self._failed.add(resolved.digest)
            raise

    async def resolve(self, mount: ServedModel) -> ResolvedVersion:
        """Return the version that a model refers to now, without verifying its files."""
        resolved: ResolvedVersion = await self.in_loader(
            functools.partial(find_version, mount, self._home, verify=False)
        )
        return resolved

    def _refuse(self, slot: ModelSlot, resolved: ResolvedVersion, difference: str) -> None:
        """Keep serving the active version: clients of it could not use the new one."""
        if self._refused.get(slot.mount.name) != resolved.digest:
            self._refused[slot.mount.name] = resolved.digest
            log.error(
                "%s: keeps serving version %s, not version %s: %s",
                slot.mount.name,
                slot.active.resolved.version,
                resolved.version,
                difference,
            )

    @property
    def is_ready(self) -> bool:
        """Whether a model is served, and every engine has loaded its own."""
        slots = self.slots.values()
        return bool(slots) and all(getattr(slot.active, "is_ready", True) for slot in slots)

    async def poll_engines(self) -> None:
        """Ask every engine whether it is ready."""
        for slot in list(self.slots.values()):
            if isinstance(slot.active, ProxiedVersion):
                await slot.active.poll()

    async def poll_commands(self) -> None:
        """Apply new commands of other workers and evaluate the canaries."""
        if self._board.changed():
            await self._apply_commands(await self.in_loader(self._board.commands))
        await self._canaries.evaluate()
        await self._record_endpoints()
        self.publish()

    def publish(self) -> WorkerReport:
        """Write this worker's counts for the other workers, and return them."""
        versions = [version for slot in self.slots.values() for version in slot.versions()]
        report = WorkerReport(
            pid=self._board.pid,
            snapshots=self.own(),
            swaps=self.swaps,
            serving=tuple(
                (version.resolved.name, version.resolved.version) for version in versions
            ),
            drift=tuple(
                version.drift.counts(*version.label)
                for version in versions
                if isinstance(version, Version) and version.drift is not None
            ),
            shadows=self._shadows.counts(self.slots.values()),
        )
        self._board.publish(report)
        return report

    def monitoring(self) -> Monitoring:
        """Return input drift and shadows over all workers."""
        reports = (self.publish(), *self._board.others())
        versions = (version for slot in self.slots.values() for version in slot.versions())
        profiles = {
            version.label: version.profile for version in versions if isinstance(version, Version)
        }
        drift = (item for report in reports for item in report.drift)
        return monitoring_of(
            profiles, drift, (item for report in reports for item in report.shadows)
        )

    def own(self) -> tuple[MetricsSnapshot, ...]:
        current = (
            version.snapshot() for slot in self.slots.values() for version in slot.versions()
        )
        return sum_snapshots((*self._past, *current))

    def snapshots(self) -> tuple[MetricsSnapshot, ...]:
        """Return the counts of all workers; those of other workers are up to a second old.

        Publishes this worker's counts first, so that a reported sum never decreases, even if this
        worker is killed next.
        """
        self.publish()
        others = (snapshot for report in self._board.others() for snapshot in report.snapshots)
        return sum_snapshots((*self.own(), *others))

    def close(self) -> None:
        """Write the last counts and shut down the threads."""
        self.publish()
        self._loaders.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def log_once(self, message: str, name: str, error: GpuyardError) -> None:
        if str(error) not in self._logged:
            self._logged.add(str(error))
            log.error(message, name, error)

    # Loads and file access run in one thread, so that the event loop keeps serving.
    async def in_loader(self, function: Callable[..., object], *arguments: object):  # type: ignore[no-untyped-def]
        return await asyncio.get_running_loop().run_in_executor(self._loaders, function, *arguments)

    # Hot swap: requests that the previous version has started are finished by it.
    async def _mount(self, mount: ServedModel, resolved: ResolvedVersion) -> None:
        async with self._loading:
            loaded = await self.versions.load(resolved)
            slot = self.slots.get(mount.name)
            self._mounts[mount.name] = mount
            if slot is None:
                self.slots[mount.name] = ModelSlot(mount, loaded)
            else:
                self._past = list(sum_snapshots((*self._past, slot.active.snapshot())))
                slot.mount, slot.active = mount, loaded
                if slot.canary is not None:  # compare it with the new version from here on
                    slot.canary = replace(slot.canary, start=loaded.snapshot())
                self.swaps += 1
            self._route()
            log.info("%s: serving version %s", mount.name, resolved.version)

    async def _record_endpoints(self) -> None:
        slots = tuple(self.slots.values())
        models = tuple(version_label(slot.active.resolved) for slot in slots)
        canaries = tuple(
            Canary(
                model=version_label(slot.canary.version.resolved),
                share_ratio=slot.canary.spec.share_ratio,
            )
            for slot in slots
            if slot.canary is not None
        )
        if self._recorded == (models, canaries):
            return
        try:
            await self.in_loader(
                Endpoints(home=self._home).changed, self._settings.name, models, canaries
            )
            self._recorded = models, canaries
        except GpuyardError as error:  # an unwritable ledger must not stop the server
            self.log_once("%s: the ledger is out of date: %s", self._settings.name, error)

    def _unload(self, name: str) -> None:
        slot = self.slots.pop(name, None)
        self._mounts.pop(name, None)
        if slot is not None:
            self._past.extend(version.snapshot() for version in slot.versions())
            self._route()

    # Replaces the whole table at once, so that a request never sees a part of it.
    def _route(self) -> None:
        paths: dict[str, ModelSlot | Version] = {}
        for name, slot in self.slots.items():
            for version in slot.versions():
                if isinstance(version, Version):
                    paths[f"/v2/models/{name}/infer"] = slot
                    paths[f"/v2/models/{name}/versions/{version.resolved.version}/infer"] = version
        self.paths = paths

    async def _apply_commands(self, commands: WorkerCommands) -> None:
        for name in commands.unloads:
            self._unload(name)
        for name, reference in commands.loads:
            known = self._mounts.get(name)
            mount = (
                ServedModel(name=name, reference=reference) if reference or known is None else known
            )
            try:
                resolved = await self.in_loader(find_version, mount, self._home)
                slot = self.slots.get(name)
                if slot is None or slot.active.resolved.digest != resolved.digest:
                    await self._mount(mount, resolved)
            except GpuyardError as error:
                log.error("%s is unchanged: %s", name, error)
        self._canaries.drop_rolled_back(commands)

    def drop_canary(self, slot: ModelSlot) -> None:
        if slot.canary is not None:
            self._past.append(slot.canary.version.snapshot())
            self.set_canary(slot, None)

    def set_canary(self, slot: ModelSlot, canary: LoadedCanary | None) -> None:
        slot.canary = canary
        self._route()
