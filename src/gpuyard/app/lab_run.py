"""`gpuyard lab run`: all-reduce and a training across the lab, with failures in the middle, against prediction."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuyard.app.lab import measure_lab
from gpuyard.datasets import DataSpec, prepare
from gpuyard.document import Keys, decode, read_yaml
from gpuyard.errors import InputError
from gpuyard.lab import Lab
from gpuyard.lab.faults import fail_switch, heal, wires_of_device
from gpuyard.lab.results import Bandwidth, Broken, Ran
from gpuyard.lab.saved import recall
from gpuyard.lab.state import wait
from gpuyard.lab.training import Event, train
from gpuyard.lab.work import Job
from gpuyard.learn import TrainSpec, TrainTask, write_task

__all__ = ["LabRun", "run_lab"]

Framework = Literal["torch", "jax"]
Tell = Callable[[str], None]
# A real data set that comes with scikit-learn: 1,797 images of digits, 64 numbers each.
DATA = "{source: 'sklearn:digits', label: target, steps: [{minmax: {columns: ['*']}}], split: {test: 20%, seed: 1}}"
WIDTH, BATCH = 256, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """What to run across the lab."""

    name: str = "lab"
    framework: Framework = "torch"
    steps: int = 60
    sizes_bytes: tuple[int, ...] = (16 << 20, 64 << 20)  # of all-reduce; empty: not measured
    fail: str | None = None  # a device that is lost after a third of the steps and back after two thirds
    silent: bool = False
    seed: int = 0


def run_lab(asked: LabRun, tell: Tell = lambda _: None) -> Ran:
    """Measures bandwidth, trains, and trains again with the failure that is asked for."""
    lab = recall(asked.name)
    if asked.fail is not None:
        wires_of_device(lab, asked.fail)
    if asked.steps < 6:
        raise InputError.one("--steps", f"{asked.steps} steps leave no middle to fail in", "write 6 or more")
    bandwidth: tuple[Bandwidth, ...] = ()
    if asked.sizes_bytes:
        tell("measuring all-reduce")
        bandwidth = measure_lab(asked.name, asked.sizes_bytes)
    with tempfile.TemporaryDirectory(prefix="gpuyard-lab-") as scratch:
        folder = Path(scratch)
        tell("preparing data")
        data = prepare(_data(), base=folder, out=folder / "data").folder
        tell(f"training on {len(lab.fabric.servers)} servers")
        trained = train(lab, _task(asked, data, folder / "whole"), servers=lab.fabric.servers)
        if asked.fail is None:
            return Ran(name=asked.name, bandwidth=bandwidth, trained=trained)
        tell(f"training again, without {asked.fail} in the middle")
        events = _events(lab, asked, asked.fail)
        again = train(lab, _task(asked, data, folder / "broken"), servers=lab.fabric.servers, events=events)
    wait(lab)
    broken = Broken(
        trained=again,
        largest_loss_difference=_difference(trained.losses, again.losses),
        detect_s=lab.fabric.routing.bfd.detect_s,
    )
    return Ran(name=asked.name, bandwidth=bandwidth, trained=trained, broken=broken)


def _data() -> DataSpec:
    """The data that is trained on."""
    return decode(read_yaml(DATA, "lab data").root, DataSpec, Keys.BARE)


def _task(asked: LabRun, data: Path, out: Path) -> Path:
    """A multilayer perceptron, its gradients summed over all servers in every step."""
    text = (
        f"{{seed: {asked.seed}, log_every: 1, checkpoint_every: 10, "
        f"{asked.framework}_mlp: {{hidden: {WIDTH}, layers: 2, steps: {asked.steps}, batch: {BATCH}}}}}"
    )
    spec = decode(read_yaml(text, "lab training").root, TrainSpec, Keys.BARE)
    return write_task(TrainTask(train=spec, data=str(data), out=str(out), name="lab", export=False))


def _events(lab: Lab, asked: LabRun, device: str) -> tuple[Event, ...]:
    """The failure at a third of the steps and the repair at two thirds; a lost server comes back at once."""
    third = max(1, asked.steps // 3)
    servers = [server.name for server in lab.fabric.servers]
    if device in servers:
        rank = servers.index(device)

        def lose(job: Job) -> None:
            """The server's process is gone at once."""
            job.processes[rank].kill()

        return (Event(step=third, what=f"{device} lost, all start again from the checkpoint", act=lose),)
    how = "silent" if asked.silent else "down"
    return (
        Event(step=third, what=f"{device} {how}", act=lambda _: fail_switch(lab, device, silent=asked.silent)),
        Event(step=2 * third, what=f"{device} back", act=lambda _: _heal(lab)),
    )


def _heal(lab: Lab) -> None:
    """Mends everything."""
    heal(lab)


def _difference(one: Sequence[tuple[int, float]], other: Sequence[tuple[int, float]]) -> float:
    """The largest relative difference of losses of the same step."""
    second = dict(other)
    shared = [(loss, second[step]) for step, loss in one if step in second]
    return max((abs(a - b) / max(abs(a), 1e-12) for a, b in shared), default=float("inf"))
