"""`gpuyard up`: a workload file from check to report, every stage kept, so that a second start goes on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard import __version__
from gpuyard.app.up_stages import CLOUD, LOCAL, Step, Up
from gpuyard.app.up_values import Kept
from gpuyard.catalog import load_catalog
from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, one_of
from gpuyard.home import Home, write_whole
from gpuyard.jobs.way import Outcome, Way
from gpuyard.workload import own_catalogs, read_workload

__all__ = ["names_of", "up"]

Tell = Callable[[str, str], None]


def names_of(local: bool) -> tuple[str, ...]:
    """The stages of a target, in their order."""
    return tuple(step.name for step in (LOCAL if local else CLOUD))


def up(
    path: Path, *, home: Home | None = None, until: str | None = None, dry_run: bool = False, engine: str | None = None,
    layers: Sequence[Path] = (), tell: Tell = lambda _name, _words: None,
) -> Way:  # fmt: skip
    """Takes the workload through all its stages; what is done and unchanged is not done again."""
    workload = read_workload(path, load_catalog((*layers, *own_catalogs(path))))
    local = workload.where.provider == "local"
    steps: tuple[Step, ...] = LOCAL if local else CLOUD
    if until is not None and until not in names_of(local):
        raise InputError.one("--until", f'no stage "{until}" for this target', f"use {one_of(names_of(local), 20)}")
    home = Home(path=(home.path if home else Home.beside(path).path).resolve())
    folder = home.path / "up" / workload.name
    work = Up(path=path, home=home, folder=folder, workload=workload, layers=tuple(layers), engine=engine)
    if dry_run:
        planned = tuple(Outcome(name=step.name, state="planned", what=step.does) for step in steps)
        return Way(name=workload.name, target=_target(local), stages=planned, folder=str(folder))
    kept = _kept(folder, _key(path, engine), _target(local))
    done: list[Outcome] = []
    for number, step in enumerate(steps):
        earlier = kept.outcomes[number] if number < len(kept.outcomes) else None
        if earlier is not None and step.stands(work, earlier):
            outcome = replace(earlier, state="kept" if earlier.state == "done" else earlier.state)
        else:
            kept = replace(kept, outcomes=kept.outcomes[:number])  # what follows was made from what is made anew
            for later in steps[number:]:
                later.clear(work)
            tell(step.name, "")
            started_s = time.monotonic()
            outcome = replace(step.run(work), seconds=time.monotonic() - started_s)
            kept = replace(kept, outcomes=(*kept.outcomes, outcome))
            write_whole(folder / "up.json", dump_json(kept))
        tell(step.name, outcome.what)
        done.append(outcome)
        if outcome.state == "stopped" or step.name == until:
            break
    return Way(
        name=workload.name, target=_target(local), stages=tuple(done), folder=str(folder), next=work.advice(done)
    )


def _target(local: bool) -> str:
    """Where it runs."""
    return "this machine" if local else "planned machines"


def _key(path: Path, engine: str | None) -> str:
    """The same for the same workload, engine and gpuyard."""
    return hashlib.sha256(path.read_bytes() + f"{engine}{__version__}".encode()).hexdigest()


def _kept(folder: Path, key: str, target: str) -> Kept:
    """What an earlier start finished; nothing when the workload has changed since."""
    path = folder / "up.json"
    if not path.exists():
        return Kept(key=key, target=target)
    try:
        kept = load_json(path.read_text(encoding="utf-8"), Kept, str(path))
    except InputError:
        return Kept(key=key, target=target)  # written by another version
    return kept if kept.key == key else Kept(key=key, target=target)
