"""The models of one worker: loaded, swapped while requests go on, and a canary beside them."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.registry import TRANSFORM, WEIGHTS
from gpuyard.serving.board import Board, Orders, Report
from gpuyard.serving.completions import LanguageVersion
from gpuyard.serving.endpoints import Canary, Endpoints
from gpuyard.serving.guard import judge, since
from gpuyard.serving.language import LanguageEngine
from gpuyard.serving.meter import Reading, add_readings
from gpuyard.serving.sources import Found, find_version
from gpuyard.serving.spec import CanarySpec, Mount, Settings
from gpuyard.serving.version import Loaded, Transform, Version, load_version

__all__ = ["Fleet", "Served", "Slot"]

log = logging.getLogger("gpuyard.serving")
Served = Version | LanguageVersion
MOST_VERSIONS = 32  # that compute at once in one worker


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """The canary of a model, and what was counted when it came."""

    version: Version
    spec: CanarySpec
    start: Reading  # of the version in use


class Slot:
    """A model's name and the versions behind it."""

    __slots__ = ("active", "beside", "credit", "mount")

    def __init__(self, mount: Mount, active: Served) -> None:
        self.mount = mount
        self.active = active
        self.beside: _Beside | None = None
        self.credit = 0.0

    def chosen(self) -> Served:
        """The version that answers the next request: of any hundred, exactly the canary's share go to it."""
        if self.beside is None:
            return self.active
        self.credit += self.beside.spec.share_ratio
        if self.credit < 1:
            return self.active
        self.credit -= 1
        return self.beside.version

    def versions(self) -> Iterator[Served]:
        """The version in use, and the canary."""
        yield self.active
        if self.beside is not None:
            yield self.beside.version


class Fleet:
    """All that one worker serves."""

    def __init__(self, settings: Settings, transforms: Callable[[Path], Transform]) -> None:
        self._settings = settings
        self._transforms = transforms
        self._home = Home(path=Path(settings.home))
        self._board = Board(Path(settings.folder))
        self._loading = asyncio.Lock()
        self._loaders = ThreadPoolExecutor(1, "load")
        self._pool = ThreadPoolExecutor(MOST_VERSIONS, "infer")  # a version takes one thread at a time
        self._mounts = {mount.name: mount for mount in settings.mounts}
        self._withdrawn: set[str] = set()
        self._told: set[str] = set()
        self._failed: set[str] = set()  # digests that could not be loaded; not tried again
        self._past: list[Reading] = []  # of versions that were replaced
        self._noted: tuple[tuple[str, ...], tuple[Canary, ...]] | None = None  # in the ledger, by this worker
        self.slots: dict[str, Slot] = {}
        self.paths: dict[str, Slot | Version] = {}
        self.swaps = 0

    @property
    def withdrawn(self) -> int:
        """Canaries that were taken back."""
        return len(self._withdrawn)

    async def start(self) -> None:
        """Loads every model; InputError if one cannot be."""
        for mount in self._settings.mounts:
            await self._mount(mount, await self._in_loader(find_version, mount, self._home))
        await self._obey(self._board.orders())
        await self._follow_canaries()
        await self._note()
        self.publish()

    async def load(self, name: str, reference: str) -> Found:
        """Loads what the reference names now, here at once and in the other workers within a second."""
        known = self._mounts.get(name)
        mount = Mount(name=name, reference=reference) if reference or known is None else known
        if not mount.folder and not mount.reference:
            mount = Mount(name=name, reference=name)
        found: Found = await self._in_loader(find_version, mount, self._home)
        await self._mount(mount, found)
        await self._in_loader(self._board.order, lambda orders: orders.with_load(name, mount.reference))
        await self._note()
        return found

    async def unload(self, name: str) -> None:
        """Leaves a model, in all workers."""
        await self._in_loader(self._board.order, lambda orders: orders.with_unload(name))
        self._leave(name)
        await self._note()

    async def follow(self) -> None:
        """Looks once at what the mounts name now, and swaps what has changed."""
        for mount in list(self._mounts.values()):
            try:
                await self._follow(mount)
            except GpuyardError as error:
                if str(error) not in self._told:  # once, not at every look
                    self._told.add(str(error))
                    log.error("%s stays as it is: %s", mount.name, error)
        await self._follow_canaries()
        await self._note()

    async def _follow(self, mount: Mount) -> None:
        """Swaps one model if its mount names another version now."""
        found: Found = await self._in_loader(functools.partial(find_version, mount, self._home, verify=False))
        slot = self.slots.get(mount.name)
        if slot is None or found.digest == slot.active.found.digest or found.digest in self._failed:
            return
        try:
            await self._mount(mount, await self._in_loader(find_version, mount, self._home))
        except GpuyardError:
            self._failed.add(found.digest)
            raise

    async def heed(self) -> None:
        """Does what other workers have ordered since, and judges the canaries."""
        if self._board.changed():
            await self._obey(await self._in_loader(self._board.orders))
        await self._judge()
        await self._note()
        self.publish()

    def publish(self) -> None:
        """Writes this worker's counts for the others."""
        serving = tuple((slot.mount.name, version.found.version) for slot in self.slots.values()
                        for version in slot.versions())  # fmt: skip
        self._board.publish(Report(pid=self._board.pid, readings=self.own(), swaps=self.swaps, serving=serving))

    def own(self) -> tuple[Reading, ...]:
        """The counts of this worker."""
        living = (version.reading() for slot in self.slots.values() for version in slot.versions())
        return add_readings((*self._past, *living))

    def readings(self) -> tuple[Reading, ...]:
        """The counts of all workers: this one's of now, the others' of the last second.

        Its own are written before they are told: a sum once seen never falls, even if this worker is killed next.
        """
        self.publish()
        others = (reading for report in self._board.others() for reading in report.readings)
        return add_readings((*self.own(), *others))

    def close(self) -> None:
        """Writes the last counts and lets the threads go."""
        self.publish()
        self._loaders.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _in_loader(self, function: Callable[..., object], *arguments: object):  # type: ignore[no-untyped-def]
        """Runs it in the thread that loads, so that requests go on."""
        return await asyncio.get_running_loop().run_in_executor(self._loaders, function, *arguments)

    async def _mount(self, mount: Mount, found: Found) -> None:
        """Puts a version in use; requests that the one before has begun are finished by it."""
        async with self._loading:
            fresh = await self._loaded(found)
            slot = self.slots.get(mount.name)
            self._mounts[mount.name] = mount
            if slot is None:
                self.slots[mount.name] = Slot(mount, fresh)
            else:
                self._past = list(add_readings((*self._past, slot.active.reading())))
                slot.mount, slot.active = mount, fresh
                if slot.beside is not None:  # from now on it is compared with the new one
                    slot.beside = replace(slot.beside, start=fresh.reading())
                self.swaps += 1
            self._route()
            log.info("%s: version %s answers", mount.name, found.version)

    async def _note(self) -> None:
        """Writes to the ledger which versions answer, where that has changed."""
        slots = tuple(self.slots.values())
        models = tuple(_label(slot.active.found) for slot in slots)
        canaries = tuple(
            Canary(model=_label(slot.beside.version.found), share_ratio=slot.beside.spec.share_ratio)
            for slot in slots if slot.beside is not None
        )  # fmt: skip
        if self._noted == (models, canaries):
            return
        try:
            await self._in_loader(Endpoints(home=self._home).changed, self._settings.name, models, canaries)
            self._noted = models, canaries
        except GpuyardError as error:  # a ledger that cannot be written must not stop a server
            if str(error) not in self._told:
                self._told.add(str(error))
                log.error("the ledger is behind: %s", error)

    async def _loaded(self, found: Found) -> Served:
        """The version, made in the loading thread and finished on the loop."""
        if found.bundle.kind == "language":
            engine: LanguageEngine = await self._in_loader(LanguageEngine, found.folder / WEIGHTS)
            return LanguageVersion(found, engine, self._pool)
        parts: Loaded = await self._in_loader(self._parts, found)
        return Version(parts, self._settings.batch, self._pool)

    def _parts(self, found: Found) -> Loaded:
        """A version's parts, with its transform where it has one."""
        path = found.folder / TRANSFORM
        return load_version(found, self._transforms(path) if path.is_file() else None, self._settings.batch)

    def _leave(self, name: str) -> None:
        """Takes a model away."""
        slot = self.slots.pop(name, None)
        self._mounts.pop(name, None)
        if slot is not None:
            self._past.extend(version.reading() for version in slot.versions())
            self._route()

    def _route(self) -> None:
        """The paths of inference, made anew in one step."""
        paths: dict[str, Slot | Version] = {}
        for name, slot in self.slots.items():
            for version in slot.versions():
                if isinstance(version, Version):
                    paths[f"/v2/models/{name}/infer"] = slot
                    paths[f"/v2/models/{name}/versions/{version.found.version}/infer"] = version
        self.paths = paths

    async def _obey(self, orders: Orders) -> None:
        """Brings this worker to what was ordered."""
        for name in orders.unloads:
            self._leave(name)
        for name, reference in orders.loads:
            known = self._mounts.get(name)
            mount = Mount(name=name, reference=reference) if reference or known is None else known
            try:
                found = await self._in_loader(find_version, mount, self._home)
                slot = self.slots.get(name)
                if slot is None or slot.active.found.digest != found.digest:
                    await self._mount(mount, found)
            except GpuyardError as error:
                log.error("%s stays as it is: %s", name, error)
        self._withdrawn.update(label for label, _ in orders.withdrawn)
        for slot in self.slots.values():
            if slot.beside is not None and _label(slot.beside.version.found) in self._withdrawn:
                self._drop_canary(slot)

    async def _follow_canaries(self) -> None:
        """Loads the canaries that are named, unless they were taken back or are in use already."""
        for spec in self._settings.canaries:
            name = spec.model.partition("@")[0].partition("/")[0]
            slot = self.slots.get(name)
            if slot is None:
                continue
            mount = Mount(name=name, reference=spec.model)
            try:
                found: Found = await self._in_loader(functools.partial(find_version, mount, self._home, verify=False))
            except InputError as error:
                if str(error) not in self._told:
                    self._told.add(str(error))
                    log.error("no canary for %s: %s", name, error)
                continue
            present = slot.beside.version.found.digest if slot.beside else ""
            if found.digest == slot.active.found.digest or _label(found) in self._withdrawn:
                self._drop_canary(slot)
            elif found.digest != present and found.digest not in self._failed:
                await self._set_canary(slot, spec, found)

    async def _set_canary(self, slot: Slot, spec: CanarySpec, found: Found) -> None:
        """Puts a canary beside the version in use."""
        try:
            fresh = await self._loaded(found)
        except GpuyardError as error:
            log.error("no canary for %s: %s", slot.mount.name, error)
            self._failed.add(found.digest)
            return
        if isinstance(fresh, Version):
            self._drop_canary(slot)
            start = next((item for item in self.readings() if (item.model, item.version) == _key(slot.active)), None)
            slot.beside = _Beside(version=fresh, spec=spec, start=start or slot.active.reading())
            self._route()
            log.info("%s: version %s answers %.0f%%", slot.mount.name, found.version, 100 * spec.share_ratio)

    def _drop_canary(self, slot: Slot) -> None:
        """Takes the canary away; what it has begun it finishes."""
        if slot.beside is not None:
            self._past.append(slot.beside.version.reading())
            slot.beside = None
            self._route()

    async def _judge(self) -> None:
        """Takes back the canaries that do worse than the version in use."""
        judged = [slot for slot in self.slots.values() if slot.beside is not None]
        if not judged:
            return
        now = {(item.model, item.version): item for item in self.readings()}
        for slot in judged:
            assert slot.beside is not None
            label = _label(slot.beside.version.found)
            canary = now.get(_key(slot.beside.version), slot.beside.version.reading())
            active = since(now.get(_key(slot.active), slot.active.reading()), slot.beside.start)
            why = judge(canary, active, slot.beside.spec.guard)
            if why:
                log.error("%s is taken back: %s", label, why)
                self._drop_canary(slot)
                self._withdrawn.add(label)
                await self._in_loader(self._board.order, functools.partial(_withdraw, label, why))


def _withdraw(label: str, why: str, orders: Orders) -> Orders:
    """The orders with a canary taken back."""
    return orders.with_withdrawn(label, why)


def _label(found: Found) -> str:
    """MODEL/VERSION."""
    return f"{found.name}/{found.version}"


def _key(version: Served) -> tuple[str, str]:
    """Model and version, as readings are told apart."""
    return version.found.name, version.found.version
