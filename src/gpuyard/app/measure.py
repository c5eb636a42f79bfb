"""`gpuyard measure`: this machine as a profile that plans and runs on it are predicted from."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.capacity import measure_serving
from gpuyard.app.probes import probes_of, shapes_of
from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home, write_whole
from gpuyard.measure import (
    Tell,
    accelerators,
    cache_rates,
    cores_count,
    layer_timings,
    memory_bytes,
    memory_rates,
    process_rates,
    processor,
    product_rates,
    silent,
    storage_rates,
    versions,
)
from gpuyard.measure.compute import has
from gpuyard.perf.local import LocalProfile, Rate, fit_probes

__all__ = ["PROFILE", "measure_machine", "measure_rates", "read_profile", "save_profile", "trainers_here"]

PROFILE = "machine.json"


def trainers_here() -> tuple[str, ...]:
    """The trainers whose framework is installed."""
    networks = [f"{name}_{kind}" for name in ("jax", "torch") if has(name) for kind in ("mlp", "transformer")]
    return (*(["trees"] if has("lightgbm") else []), *networks)


def measure_machine(
    folder: Path,
    trainers: Sequence[str] | None = None,
    *,
    serving: bool = True,
    quick: bool = False,
    tell: Tell = silent,
) -> LocalProfile:
    """Rates of what the trainers use (all of it where none are named), short trainings, and the constants of both."""
    profile = measure_rates(folder, trainers, quick=quick, tell=tell)
    for trainer in trainers_here() if trainers is None else trainers:
        probes = probes_of(trainer, shapes_of(trainer, quick=quick), tell=tell)
        fit = fit_probes(profile, trainer, probes)
        profile = replace(profile, probes=(*profile.probes, *probes), fits=(*profile.fits, fit))
    if serving and all(map(has, ("granian", "onnxruntime", "jax", "lightgbm"))):
        profile = replace(profile, serving=measure_serving(tell))
    return profile


def measure_rates(
    folder: Path, trainers: Sequence[str] | None = None, *, quick: bool = False, tell: Tell = silent
) -> LocalProfile:
    """The machine without trainings: rates of what the trainers use, of all of it where none are named."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = trainers_here() if trainers is None else tuple(trainers)
    return LocalProfile(
        name=socket.gethostname(), processor=processor(), cores_count=cores_count(), memory_bytes=memory_bytes(),
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), versions=versions(),
        accelerators=accelerators() if trainers is None else (),
        rates=tuple(_rates(folder, chosen, tell, whole=trainers is None)),
        timings=tuple(layer_timings(chosen, tell, quick=quick)),
    )  # fmt: skip


def _rates(folder: Path, trainers: Sequence[str], tell: Tell, *, whole: bool) -> Iterator[Rate]:
    """The rates of the machine; storage and processes only of the whole of it."""
    used = {trainer.partition("_")[0] for trainer in trainers}
    if whole:
        tell("storage")
        yield from storage_rates(folder)  # first: a folder without room is told before the minutes of the rest
    yield from product_rates(("numpy", "torch", "jax") if whole else tuple(used), tell)
    tell("memory")
    yield from memory_rates()
    yield from cache_rates(tuple(used), tell)
    if whole:
        tell("processes")
        yield from process_rates()


def save_profile(profile: LocalProfile, home: Home) -> Path:
    """Keeps the profile in the state directory."""
    path = home.path / PROFILE
    write_whole(path, dump_json(profile))
    return path


def read_profile(home: Home) -> LocalProfile:
    """The profile of a state directory; RefusedError when the machine was not measured."""
    path = home.path / PROFILE
    if not path.exists():
        raise RefusedError(str(path), "this machine was not measured", "gpuyard measure")
    try:
        return load_json(path.read_text(encoding="utf-8"), LocalProfile, str(path))
    except InputError as error:
        raise RefusedError(str(path), "is not a profile of this version", "gpuyard measure") from error
