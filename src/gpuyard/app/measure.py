"""`gpuyard measure`: benchmark this machine into a machine profile."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.app.serving_cost import measure_serving
from gpuyard.app.training_probes import probes_of, shapes_of
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home, write_atomic
from gpuyard.measure.compute import accelerators, gemm_rates, has, memory_rates
from gpuyard.measure.host import cores_count, memory_bytes, processor, versions
from gpuyard.measure.layers import cache_rates, layer_timings
from gpuyard.measure.processes import process_rates
from gpuyard.measure.progress import ProgressCallback, silent
from gpuyard.measure.storage import storage_rates
from gpuyard.perf.local.predict import fit_probes
from gpuyard.perf.local.profile import MachineProfile, Rate

PROFILE = "machine.json"


def trainers_here() -> tuple[str, ...]:
    """Trainers whose framework is installed."""
    networks = [
        f"{name}_{kind}"
        for name in ("jax", "torch")
        if has(name)
        for kind in ("mlp", "transformer")
    ]
    return (*(["trees"] if has("lightgbm") else []), *networks)


def measure_machine(
    folder: Path,
    trainers: Sequence[str] | None = None,
    *,
    serving: bool = True,
    quick: bool = False,
    on_progress: ProgressCallback = silent,
) -> MachineProfile:
    """Benchmark the machine, run short training runs, and fit the constants of both."""
    profile = measure_rates(folder, trainers, quick=quick, on_progress=on_progress)
    for trainer in trainers_here() if trainers is None else trainers:
        probes = probes_of(trainer, shapes_of(trainer, quick=quick), on_progress=on_progress)
        fit = fit_probes(profile, trainer, probes)
        profile = replace(profile, probes=(*profile.probes, *probes), fits=(*profile.fits, fit))
    if serving and all(map(has, ("granian", "onnxruntime", "jax", "lightgbm"))):
        profile = replace(profile, serving=measure_serving(on_progress))
    return profile


def measure_rates(
    folder: Path,
    trainers: Sequence[str] | None = None,
    *,
    quick: bool = False,
    on_progress: ProgressCallback = silent,
) -> MachineProfile:
    """Benchmark the machine without training runs."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = trainers_here() if trainers is None else tuple(trainers)
    return MachineProfile(
        name=socket.gethostname(),
        processor=processor(),
        cores_count=cores_count(),
        memory_bytes=memory_bytes(),
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions=versions(),
        accelerators=accelerators() if trainers is None else (),
        rates=tuple(_rates(folder, chosen, on_progress, whole=trainers is None)),
        timings=tuple(layer_timings(chosen, on_progress, quick=quick)),
    )


def _rates(
    folder: Path, trainers: Sequence[str], on_progress: ProgressCallback, *, whole: bool
) -> Iterator[Rate]:
    used = {trainer.partition("_")[0] for trainer in trainers}
    if whole:
        on_progress("storage")
        yield from storage_rates(
            folder
        )  # first: a full disk is reported before the minutes of the rest
    yield from gemm_rates(("numpy", "torch", "jax") if whole else tuple(used), on_progress)
    on_progress("memory")
    yield from memory_rates()
    yield from cache_rates(tuple(used), on_progress)
    if whole:
        on_progress("processes")
        yield from process_rates()


def save_profile(profile: MachineProfile, home: Home) -> Path:
    """Save the profile in the state directory."""
    path = home.path / PROFILE
    write_atomic(path, dump_json(profile))
    return path


def read_profile(home: Home) -> MachineProfile:
    """Read the profile of a state directory; ExternalError without one."""
    path = home.path / PROFILE
    if not path.exists():
        raise ExternalError(str(path), "this machine was not measured", "gpuyard measure")
    try:
        return load_json_file(path, MachineProfile)
    except InputError as error:
        raise ExternalError(
            str(path), "is not a profile of this version", "gpuyard measure"
        ) from error
