"""`gpuyard calibrate --run`: what a run measured becomes one more probe of the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from gpuyard.app.measure import read_profile, save_profile
from gpuyard.app.predict import training_work
from gpuyard.app.runs import find_run
from gpuyard.app.stage import Prepared, load_result, open_run
from gpuyard.datasets import load_prepared
from gpuyard.document import Doc
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn import TrainResult, trainer_of
from gpuyard.perf.local import Compared, LocalProfile, Probe, Work, fit_probes, predict_step

__all__ = ["Folded", "fold_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A run's step, predicted by the profile as it was and as it is now."""

    run: str
    trainer: str
    before: Compared
    after: Compared
    error_before_ratio: Annotated[float, Doc("mean of leaving one probe out and predicting it")]
    error_after_ratio: float
    file: str


def fold_run(home: Home, run_id: str) -> Folded:
    """Takes the measured step of a run as a probe of the machine profile, and keeps the profile."""
    run = find_run(home, run_id)
    folder = open_run(Path(run.folder))
    stages, profile = folder.stages, read_profile(home)
    if stages.train is None or stages.data is None:
        raise InputError.one(f"run {run.id}", "has no training that is modelled", "name a run with data and train")
    result, trainer = load_result(folder, "train", TrainResult), trainer_of(stages.train)
    manifest = load_prepared(Path(load_result(folder, "data", Prepared).folder)).manifest
    found, fit = training_work(stages.train, manifest), profile.fit(trainer)
    if found is None or result.world != 1:
        what = f"{trainer} on {result.world} processes is not modelled"
        raise InputError.one(f"run {run.id}", what, "name a run of one process of trees, a perceptron or a transformer")
    if fit is None:
        raise InputError.one(str(home.path), f"{trainer} was not tried on this machine", "gpuyard measure")
    work, label = found[0], f"run {run.id}"
    probe = Probe(
        trainer=trainer, label=label, work=work, step_s=result.step_s, memory_bytes=result.memory_bytes
    )  # fmt: skip
    probes = (*(each for each in profile.probes if (each.trainer, each.label) != (trainer, label)), probe)
    fitted = fit_probes(profile, trainer, [each for each in probes if each.trainer == trainer])
    others = tuple(each for each in profile.fits if each.trainer != trainer)
    learned = replace(profile, probes=probes, fits=(*others, fitted))
    return Folded(
        run=run.id, trainer=trainer, before=_compared(work, profile, result), after=_compared(work, learned, result),
        error_before_ratio=fit.error_ratio, error_after_ratio=fitted.error_ratio, file=str(save_profile(learned, home)),
    )  # fmt: skip


def _compared(work: Work, profile: LocalProfile, result: TrainResult) -> Compared:
    """The step as a profile predicts it, beside the measured one."""
    predicted_s = predict_step(work, profile, result.trainer).step_s
    return Compared(name="step time", unit="s", predicted=predicted_s, measured=result.step_s)
