"""`gpuyard lab run`: all-reduce and a training run on the lab, with failures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.app.lab import measure_lab
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.lab.faults import fail_switch, heal, links_of_device
from gpuyard.lab.links import Lab
from gpuyard.lab.processes import LabJob
from gpuyard.lab.results import Bandwidth, FailureComparison, LabResults
from gpuyard.lab.saved import load
from gpuyard.lab.state import wait
from gpuyard.lab.training import ScheduledFault, train
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask, write_task

Framework = Literal["torch", "jax"]
LabProgress = Callable[[str], None]
# A real data set that comes with scikit-learn: 1,797 images of digits, 64 numbers each.
DATA = """
source: sklearn:digits
label: target
steps: [{minmax: {columns: ["*"]}}]
split: {test: 20%, seed: 1}
"""
WIDTH, BATCH = 256, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """What to run on the lab."""

    name: str = "lab"
    framework: Framework = "torch"
    steps: int = 60
    sizes_bytes: tuple[int, ...] = (16 << 20, 64 << 20)  # of all-reduce; empty: not measured
    fail: str | None = (
        None  # a device that is lost after a third of the steps and back after two thirds
    )
    silent: bool = False
    seed: int = 0


def run_lab(options: LabRun, on_progress: LabProgress = lambda _: None) -> LabResults:
    """Measure bandwidth, train, and train again with the requested failure."""
    lab = load(options.name)
    if options.fail is not None:
        links_of_device(lab, options.fail)
    if options.steps < 6:
        raise InputError.one(
            "--steps", f"{options.steps} steps leave no middle to fail in", "write 6 or more"
        )
    bandwidth: tuple[Bandwidth, ...] = ()
    if options.sizes_bytes:
        on_progress("measuring all-reduce")
        bandwidth = measure_lab(options.name, options.sizes_bytes)
    with tempfile.TemporaryDirectory(prefix="gpuyard-lab-") as scratch:
        folder = Path(scratch)
        on_progress("preparing data")
        data = prepare(_data(), base=folder, out=folder / "data").folder
        on_progress(f"training on {len(lab.fabric.servers)} servers")
        trained = train(lab, _task(options, data, folder / "whole"), servers=lab.fabric.servers)
        if options.fail is None:
            return LabResults(name=options.name, bandwidth=bandwidth, trained=trained)
        on_progress(f"training again, without {options.fail} in the middle")
        events = _events(lab, options, options.fail)
        again = train(
            lab, _task(options, data, folder / "broken"), servers=lab.fabric.servers, events=events
        )
    wait(lab)
    broken = FailureComparison(
        trained=again,
        largest_loss_difference=_difference(trained.losses, again.losses),
        detect_s=lab.fabric.routing.bfd.detect_s,
    )
    return LabResults(name=options.name, bandwidth=bandwidth, trained=trained, broken=broken)


def _data() -> DataSpec:
    return decode(read_yaml(DATA, "lab data").root, DataSpec, Keys.BARE)


def _task(options: LabRun, data: Path, out: Path) -> Path:
    network = f"{{hidden: {WIDTH}, layers: 2, steps: {options.steps}, batch: {BATCH}}}"
    text = (
        f"{{seed: {options.seed}, log_every: 1, checkpoint_every: 10, "
        f"{options.framework}_mlp: {network}}}"
    )
    spec = decode(read_yaml(text, "lab training").root, TrainSpec, Keys.BARE)
    return write_task(TrainTask(train=spec, data=str(data), out=str(out), name="lab", export=False))


def _events(lab: Lab, options: LabRun, device: str) -> tuple[ScheduledFault, ...]:
    """Fail at a third of the steps, repair at two thirds; a lost server returns at once."""
    third = max(1, options.steps // 3)
    servers = [server.name for server in lab.fabric.servers]
    if device in servers:
        rank = servers.index(device)

        def lose(job: LabJob) -> None:
            job.processes[rank].kill()

        return (
            ScheduledFault(
                step=third, what=f"{device} lost, all start again from the checkpoint", act=lose
            ),
        )
    how = "silent" if options.silent else "down"
    return (
        ScheduledFault(
            step=third,
            what=f"{device} {how}",
            act=lambda _: fail_switch(lab, device, silent=options.silent),
        ),
        ScheduledFault(step=2 * third, what=f"{device} back", act=lambda _: _heal(lab)),
    )


def _heal(lab: Lab) -> None:
    heal(lab)


def _difference(one: Sequence[tuple[int, float]], other: Sequence[tuple[int, float]]) -> float:
    second = dict(other)
    shared = [(loss, second[step]) for step, loss in one if step in second]
    return max((abs(a - b) / max(abs(a), 1e-12) for a, b in shared), default=float("inf"))
