"""`gpuyard calibrate --run`: add the measured step of a run to the machine profile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from gpuyard.app.measure import read_profile, save_profile
from gpuyard.app.predict import training_work
from gpuyard.app.runs import find_run
from gpuyard.app.stage_worker import DataResult, load_result, open_run
from gpuyard.datasets.prepared import load_prepared
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.spec import trainer_of
from gpuyard.learn.task import TrainResult
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.perf.local.predict import fit_probes, predict_step
from gpuyard.perf.local.profile import MachineProfile, Probe
from gpuyard.perf.local.step_work import LocalStepWork


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileUpdate:
    """A run's step time, predicted by the profile before and after the update."""

    run: str
    trainer: str
    before: PredictedVsMeasured
    after: PredictedVsMeasured
    error_before_ratio: Annotated[float, Doc("mean of leaving one probe out and predicting it")]
    error_after_ratio: float
    file: str


def add_run_to_profile(home: Home, run_id: str) -> ProfileUpdate:
    """Add the measured step of a run as a probe, refit and save the machine profile."""
    run = find_run(home, run_id)
    profile = read_profile(home)
    folder = open_run(Path(run.folder))
    stages = folder.stages
    if stages.train is None or stages.data is None:
        raise InputError.one(
            f"run {run.id}", "has no training that is modelled", "name a run with data and train"
        )
    result, trainer = load_result(folder, "train", TrainResult), trainer_of(stages.train)
    manifest = load_prepared(Path(load_result(folder, "data", DataResult).folder)).manifest
    work_of_run, fit = training_work(stages.train, manifest), profile.fit(trainer)
    if work_of_run is None or result.world != 1:
        what = f"{trainer} on {result.world} processes is not modelled"
        raise InputError.one(
            f"run {run.id}",
            what,
            "name a run of one process of trees, a perceptron or a transformer",
        )
    if fit is None:
        raise InputError.one(
            str(home.path), f"{trainer} was not tried on this machine", "gpuyard measure"
        )
    work, label = work_of_run[0], f"run {run.id}"
    probe = Probe(
        trainer=trainer,
        label=label,
        work=work,
        step_s=result.step_s,
        memory_bytes=result.memory_bytes,
    )
    probes = (
        *(other for other in profile.probes if (other.trainer, other.label) != (trainer, label)),
        probe,
    )
    fitted = fit_probes(profile, trainer, [other for other in probes if other.trainer == trainer])
    others = tuple(other for other in profile.fits if other.trainer != trainer)
    learned = replace(profile, probes=probes, fits=(*others, fitted))
    return ProfileUpdate(
        run=run.id,
        trainer=trainer,
        before=_compared(work, profile, result),
        after=_compared(work, learned, result),
        error_before_ratio=fit.error_ratio,
        error_after_ratio=fitted.error_ratio,
        file=str(save_profile(learned, home)),
    )


def _compared(
    work: LocalStepWork, profile: MachineProfile, result: TrainResult
) -> PredictedVsMeasured:
    predicted_s = predict_step(work, profile, result.trainer).step_s
    return PredictedVsMeasured(
        name="step time", unit="s", predicted=predicted_s, measured=result.step_s
    )
