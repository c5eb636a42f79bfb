"""`gpuyard provision --apply` and `--destroy`, and `gpuyard sweep`: from rendered files to machines, and back."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.catalog import load_catalog
from gpuyard.errors import InputError, Problem
from gpuyard.provision.apply import (
    JOURNAL_FILE,
    Applied,
    Entry,
    Journal,
    Removal,
    Swept,
    Target,
    Work,
    apply,
    check_gates,
    check_rendering,
    destroy,
    plan_calls,
    read_target,
    remove_leftovers,
    sweep,
)
from gpuyard.provision.apply.calls import Call, CallStep, ManualStep
from gpuyard.provision.apply.credentials import application_default_token
from gpuyard.provision.apply.endpoint import Endpoint, GoogleEndpoint, LocalEndpoint
from gpuyard.provision.apply.google import GoogleHand
from gpuyard.provision.apply.hand import Clock, RealClock
from gpuyard.provision.apply.journal import check_none_stand, stand
from gpuyard.provision.apply.kubectl import KubectlHand
from gpuyard.provision.deployment import DEPLOYMENT
from gpuyard.provision.lint import lint

__all__ = ["Prepared", "World", "apply_folder", "connect", "destroy_folder", "prepare", "remove_swept", "sweep_project"]

ENDPOINT = "GPUYARD_ENDPOINT"
CLOCK = RealClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What lies outside: the way to the servers, the time, and who is told how far it is."""

    endpoint: Endpoint
    clock: Clock = CLOCK
    tell: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A folder that can be applied or destroyed: read, compared with its seal, not yet touched."""

    folder: Path
    target: Target
    steps: tuple[CallStep, ...]
    manual: tuple[ManualStep, ...]
    entries: tuple[Entry, ...]

    @property
    def needs_google(self) -> bool:
        """Whether any step is a call of a Google API."""
        return any(isinstance(step, Call) for step in self.steps)

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier run left something standing, or may have."""
        return bool(stand(self.entries))


def prepare(path: Path, context: str = "") -> Prepared:
    """The folder (or its deployment.json) as it was rendered; InputError where it changed. Needs no network."""
    folder = path.parent if path.name == DEPLOYMENT else path
    if not folder.is_dir():
        fix = "name the folder that `gpuyard provision FILE --on PLATFORM -o DIR` wrote"
        raise InputError.one(str(path), "is not a folder of rendered files", fix)
    target = read_target(_texts(folder), str(folder))
    steps, manual = plan_calls(target.artefacts, context)
    entries = Journal.read(folder / JOURNAL_FILE)
    begun = next((entry.deployment for entry in reversed(entries) if entry.event == "begin"), target.hash)
    if begun != target.hash:
        check_none_stand(folder)
    return Prepared(folder=folder, target=target, steps=steps, manual=manual, entries=entries)


def _texts(folder: Path) -> dict[str, str]:
    """The files of a folder that a rendering writes, by name."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and (re.match(r"\d\d-", name) or path.suffix in (".json", ".sh", ".md") or "/" in name):
            try:
                texts[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise InputError.one(str(path), "is not text", "take it away: it was not rendered") from None
    return texts


def connect(*, is_needed: bool = True) -> Endpoint:
    """The way to Google with your credentials, or to a server on this machine that stands for it."""
    local = os.environ.get(ENDPOINT, "")
    if local:
        return LocalEndpoint(base=local)
    return GoogleEndpoint(token=application_default_token() if is_needed else _no_token)


def _no_token() -> str:
    """Nothing is sent to Google where no step is a call."""
    raise AssertionError


def apply_folder(
    prepared: Prepared,
    world: World,
    *,
    most_usd: float | None,
    accept_stale: bool = False,
    rollback: bool = False,
    layers: Sequence[Path] = (),
) -> Applied:
    """Makes what the folder describes, or goes on where an earlier run stopped."""
    check_gates(
        prepared.target, prepared.steps, world.clock.now_s(), most_usd,
        accept_stale=accept_stale, is_resumed=prepared.is_resumed,
    )  # fmt: skip
    if not prepared.is_resumed:
        check_rendering(prepared.target, str(prepared.folder))
        _check_lint(prepared.target, layers)
    with _work(prepared, world, "apply") as work:
        return apply(work, rollback=rollback)


def _check_lint(target: Target, layers: Sequence[Path]) -> None:
    """InputError with what lint calls an error, and with what nothing on the server would end."""
    found = lint(target.artefacts, load_catalog(layers)).findings
    problems = [
        Problem(where=item.where, what=item.what, fix=item.fix)
        for item in found
        if item.severity == "error" or item.rule == "has-an-end"
    ]
    if problems:
        raise InputError(problems)


def destroy_folder(prepared: Prepared, world: World) -> tuple[Removal, ...]:
    """Removes what the folder's plan made, and sees that it is gone."""
    with _work(prepared, world, "destroy") as work:
        return destroy(work)


@contextmanager
def _work(prepared: Prepared, world: World, verb: str) -> Iterator[Work]:
    """The work on a folder; its journal is held until it is over."""
    journal = Journal.open(prepared.folder / JOURNAL_FILE)
    try:
        now_s = round(world.clock.now_s(), 3)
        journal.append(Entry(event="begin", deployment=prepared.target.hash, note=verb, at_s=now_s))
        yield Work(
            hash=prepared.target.hash,
            label=prepared.target.label,
            steps=prepared.steps,
            journal=journal,
            calls=GoogleHand(endpoint=world.endpoint, clock=world.clock),
            manifests=KubectlHand(folder=prepared.folder),
            clock=world.clock,
            tell=world.tell,
        )
    finally:
        journal.close()


def sweep_project(
    world: World, project: str, regions: tuple[str, ...], *, plan: str = "", expired: bool = False
) -> Swept:
    """What stands in a project with our labels; only of one plan, or only what should be gone, where that is asked."""
    hand = GoogleHand(endpoint=world.endpoint, clock=world.clock)
    found = sweep(hand, project, regions, world.clock.now_s())
    kept = tuple(
        item
        for item in found.leftovers
        if item.stamp.plan_hash.startswith(plan[:16]) and (item.is_expired or not expired)
    )
    return Swept(leftovers=kept, unseen=found.unseen)


def remove_swept(world: World, swept: Swept) -> tuple[Removal, ...]:
    """Removes what a sweep found."""
    hand = GoogleHand(endpoint=world.endpoint, clock=world.clock)
    return remove_leftovers(hand, swept.leftovers, world.tell)
