"""The worker process: tasks in folders, signals, kills, several processes, exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyard.catalog.models import Transformer
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import load_prepared
from gpuyard.datasets.spec import DataSpec
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError
from gpuyard.jobs.rendezvous import free_port
from gpuyard.learn.fit import fit
from gpuyard.learn.metrics_log import read_events, read_metrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import FoldOf, TrainTask, read_result, write_task
from gpuyard.learn.trainers.network_settings import MlpSpec, TransformerSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec, TorchTransformerSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.registry.bundle import read_bundle

SHAPE = Transformer(layers=1, hidden=16, heads=2, ffn=32, vocab=260)
MLP = {
    "hidden": 8,
    "layers": 1,
    "batch": 40,
    "steps": 30,
    "learning_rate": 0.01,
    "clip": 1.0,
    "accumulate": 2,
}
DECODER = {"shape": SHAPE, "batch": 4, "steps": 6, "learning_rate": 0.01, "accumulate": 2}
SPECS: dict[str, tuple[str, dict[str, object]]] = {
    "jax_mlp": ("table", {"jax_mlp": MlpSpec(**MLP)}),  # type: ignore[arg-type]
    "torch_mlp ddp": ("table", {"torch_mlp": TorchMlpSpec(**MLP)}),  # type: ignore[arg-type]
    "jax_transformer": ("tokens", {"jax_transformer": TransformerSpec(**DECODER)}),  # type: ignore[arg-type]
    "torch_transformer fsdp": (
        "tokens",
        {"torch_transformer": TorchTransformerSpec(**DECODER, parallel="fsdp")},
    ),  # type: ignore[arg-type]
}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], None]) -> Path:
    """A folder with a prepared table and prepared tokens."""
    need("polars")
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 3))
    kinds = np.where(x[:, 0] + x[:, 1] * x[:, 2] > 0, "good", "bad")
    lines = [f"{a:.6f},{b:.6f},{c:.6f},{kind}" for (a, b, c), kind in zip(x, kinds, strict=True)]
    (folder / "rows.csv").write_text("a,b,c,kind\n" + "\n".join(lines) + "\n")
    words = generator.choice(["fabric", "spine", "leaf", "link"], size=(60, 12))
    texts = [json.dumps({"text": " ".join(line)}) for line in words]
    (folder / "texts.jsonl").write_text("\n".join(texts) + "\n")
    for name, text in (
        (
            "table",
            "source: rows.csv\nlabel: kind\nsteps: [{zscore: {columns: ['*']}}]\nsplit: {test: 0.2, seed: 1}",
        ),
        (
            "tokens",
            "source: texts.jsonl\nsteps: [{tokenise: {sequence: 16}}]\nsplit: {test: 0.2, seed: 1}",
        ),
    ):
        spec = decode(read_yaml(text, "data.yaml").root, DataSpec, Keys.BARE)
        prepare(spec, base=folder, out=folder / name)
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("xla")


@pytest.fixture
def start(cache: Path):  # type: ignore[no-untyped-def]
    """Starts workers, and leaves none behind."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        folder: Path, world: int = 1, under: tuple[str, ...] = ()
    ) -> list[subprocess.Popen[str]]:
        port = free_port()
        for rank in range(world):
            env = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo",
                "JAX_COMPILATION_CACHE_DIR": str(cache),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "PYTHONWARNINGS": "",
            }
            command = [*under, sys.executable, "-m", "gpuyard.learn.worker", str(folder)]
            started.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
        return started[-world:]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(processes: list[subprocess.Popen[str]]) -> list[int]:
    """The exit codes; what they said is shown when a test fails."""
    for process in processes:
        _, said = process.communicate(timeout=600)
        sys.stderr.write(said)
    return [process.returncode for process in processes]


def task_of(name: str, prepared: Path, out: Path, **more: object) -> TrainTask:
    kind, trainer = SPECS[name]
    spec = TrainSpec(seed=3, **{"checkpoint_every": 5, "log_every": 1, **trainer, **more})  # type: ignore[arg-type]
    return TrainTask(train=spec, data=str(prepared / kind), out=str(out))


def trained(folder: Path, rows: np.ndarray) -> np.ndarray:
    """What the bundle's model says of some rows."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(
        str(folder / "bundle" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    found: np.ndarray = session.run(None, {"x": rows})[0]
    return found


def test_task_writes_metrics_result_and_bundle(
    prepared: Path, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need("lightgbm")
    task = TrainTask(
        train=TrainSpec(trees=TreesSpec(rounds=20, leaves=7, threads=1)),
        data=str(prepared / "table"),
        out=str(tmp_path),
    )
    result = fit(task)
    assert read_result(tmp_path) == result
    assert [line.step for line in read_metrics(tmp_path / "metrics.jsonl")] == [1, 10, 20]
    bundle = read_bundle(tmp_path / "bundle")
    data = load_prepared(prepared / "table")
    assert (bundle.kind, bundle.trainer, bundle.classes) == (
        "classification",
        "trees",
        ("bad", "good"),
    )
    assert [(tensor.name, tensor.dtype) for tensor in bundle.inputs] == [
        (name, "float64") for name in "abc"
    ]
    assert bundle.lineage.data == result.data_version == data.manifest.version
    assert data.transform is not None
    assert bundle.lineage.transform == data.transform.version
    assert "trees.rounds" in {pair.name for pair in bundle.lineage.parameters}
    test = data.arrays("test")
    assert (trained(tmp_path, test.x).argmax(axis=1) == test.y).mean() > 0.7


def test_fold_trains_only_on_its_part(
    prepared: Path, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need("lightgbm")
    task = TrainTask(
        train=TrainSpec(trees=TreesSpec(rounds=1, threads=1, min_rows=1)),
        data=str(prepared / "table"),
        out=str(tmp_path),
        fold=FoldOf(number=1, count=4),
    )
    fit(task)
    text = next((tmp_path / "checkpoints").glob("*/booster.txt")).read_text()
    counts = next(line for line in text.splitlines() if line.startswith("leaf_count="))
    assert (
        sum(int(count) for count in counts.partition("=")[2].split()) == 120
    )  # three quarters of 160
    with pytest.raises(InputError, match="no fold 7"):
        fit(dataclasses.replace(task, fold=FoldOf(number=7, count=4), out=str(tmp_path / "other")))


@pytest.mark.parametrize("name", ["torch_mlp ddp", "jax_transformer", "torch_transformer fsdp"])
def test_two_processes_match_one(
    name: str, prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need(name.partition("_")[0])
    alone, both = (
        task_of(name, prepared, tmp_path / "alone"),
        task_of(name, prepared, tmp_path / "both"),
    )
    fit(alone)
    assert ended(start(write_task(both), world=2)) == [0, 0]
    first, second = (
        [
            (line.step, line.loss, line.gradient_norm)
            for line in read_metrics(Path(task.out) / "metrics.jsonl")
        ]
        for task in (alone, both)
    )
    assert len(first) == len(second) >= 6
    np.testing.assert_allclose(np.asarray(second, float), np.asarray(first, float), rtol=2e-4)
    assert read_result(tmp_path / "both").world == 2
    read_bundle(tmp_path / "both" / "bundle")


@pytest.mark.parametrize("name", ["jax_mlp", "torch_mlp ddp"])
def test_worker_killed_mid_epoch_resumes_bit_identically(
    name: str, prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need(name.partition("_")[0])
    kind, trainer = SPECS[name]
    key, settings = next(iter(trainer.items()))

    def to(steps: int, folder: str) -> TrainTask:
        longer = dataclasses.replace(settings, steps=steps)  # type: ignore[type-var]
        return task_of(name, prepared, tmp_path / folder, log_every=1000, **{key: longer})

    (worker,) = start(write_task(to(10**6, "killed")))
    checkpoints = tmp_path / "killed" / "checkpoints"
    while not (checkpoints / "10").is_dir() and not (checkpoints / "15").is_dir():
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    steps = 13 + max(int(path.name) for path in checkpoints.iterdir() if path.name.isdigit())
    assert ended(start(write_task(to(steps, "killed")))) == [0]
    fit(to(steps, "whole"))
    result = read_result(tmp_path / "killed")
    assert result.resumed_step == steps - 13
    assert result.loss == read_result(tmp_path / "whole").loss
    x = load_prepared(prepared / kind).arrays("test").x
    assert np.array_equal(trained(tmp_path / "killed", x), trained(tmp_path / "whole", x))
    assert ("resumed", steps - 13, "") in read_events(tmp_path / "killed" / "metrics.jsonl")


@pytest.mark.parametrize("name", ["jax_transformer", "torch_transformer fsdp"])
def test_sigterm_checkpoint_resumes_on_any_number_of_processes(
    name: str, prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need(name.partition("_")[0])
    ((key, first),) = SPECS[name][1].items()

    def to(steps: int, folder: str) -> TrainTask:
        settings = dataclasses.replace(first, steps=steps, schedule="constant")  # type: ignore[type-var]
        return task_of(name, prepared, tmp_path / folder, checkpoint_every=10**6, **{key: settings})

    log = tmp_path / "told" / "metrics.jsonl"
    workers = start(write_task(to(10**6, "told")), world=2)
    while len(read_metrics(log)) < 3:
        assert [worker.poll() for worker in workers] == [None, None], ended(workers)
        time.sleep(0.02)
    workers[1].send_signal(signal.SIGTERM)  # one is told: all leave after the same step
    assert ended(workers) == [143, 143]
    (checkpoint,) = (tmp_path / "told" / "checkpoints").iterdir()
    step = int(checkpoint.name)
    assert step == read_metrics(log)[-1].step
    result = fit(to(step + 2, "told"))  # alone: the parts of two processes become one
    assert (result.resumed_step, result.world) == (step, 1)
    assert result.loss == pytest.approx(fit(to(step + 2, "whole")).loss, rel=1e-3)


def test_full_disk_leaves_last_good_checkpoint(
    prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need("lightgbm")
    spec = TrainSpec(
        trees=TreesSpec(rounds=400, leaves=31, min_rows=1, threads=1), checkpoint_every=5
    )
    task = TrainTask(train=spec, data=str(prepared / "table"), out=str(tmp_path))

    (worker,) = start(
        write_task(task), under=("bash", "-c", 'ulimit -f 60; exec "$@"', "-")
    )  # KiB: the model outgrows it
    _, said = worker.communicate(timeout=600)
    assert worker.returncode == 4, said
    assert "the checkpoint cannot be written" in said
    kept = sorted(int(path.name) for path in (tmp_path / "checkpoints").iterdir())
    assert kept
    assert f"step {kept[-1]} is intact" in said
    assert not (tmp_path / "result.json").exists()
    resumed = fit(task)
    assert resumed.resumed_step == kept[-1]
    assert resumed.steps == 400


FULL = ("bash", "-c", 'ulimit -f "$0"; exec "$@"')  # no file may outgrow so many KiB


def test_failed_export_is_reported_and_repeated_on_resume(
    prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need("torch")
    task = task_of("torch_transformer fsdp", prepared, tmp_path)
    before = fit(task)
    for name in ("bundle", "result.json"):
        (tmp_path / name).rename(tmp_path / f"{name}.before")
    (worker,) = start(
        write_task(task), under=(*FULL, "8")
    )  # nothing is left to train: it goes on to the export
    _, said = worker.communicate(timeout=600)
    assert worker.returncode == 4, said
    assert (
        f"{tmp_path / 'bundle'}: cannot be written: File too large\n  fix: free disk space, then resume"
        in said
    )
    assert not (tmp_path / "bundle").exists()
    assert not (tmp_path / ".bundle").exists()
    assert (fit(task).loss, read_bundle(tmp_path / "bundle").kind) == (before.loss, "language")


def test_processes_that_write_together_are_refused_together(
    prepared: Path, tmp_path: Path, start, need: Callable[[str], None]
) -> None:  # type: ignore[no-untyped-def]
    need("torch")
    settings = TorchMlpSpec(**{**MLP, "hidden": 64, "layers": 2, "early_stopping": 20})  # type: ignore[arg-type]
    task = task_of("torch_mlp ddp", prepared, tmp_path, torch_mlp=settings, validation_ratio=0.2)
    workers = start(write_task(task), world=2, under=(*FULL, "8"))
    for worker in workers:
        _, said = worker.communicate(timeout=600)
        assert worker.returncode == 4, said
        assert f"{tmp_path / 'checkpoints'}: the checkpoint cannot be written: " in said
        assert "Traceback" not in said
    assert not (tmp_path / "result.json").exists()


LEAVING = """
import os, select, sys, time, types
import torch
import torch.distributed as dist
from gpuyard.errors import ExternalError, InputError
from gpuyard.jobs.rendezvous import free_port
from gpuyard.learn import worker
from gpuyard.learn.trainer import StoppedError
from gpuyard.learn.trainers.torch_nets.devices import place_of

ENDINGS = (
    None, StoppedError("stopped"), InputError.one("a", "b", "c"), ExternalError("a", "b", "c"),
    RuntimeError("a bug"), KeyboardInterrupt(),
)
group = None  # referenced to the end, as DTensor's caches do
pids, (ready, tell_ready) = [], os.pipe()


class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.1)  # while the interpreter finalizes, a thread that waits for the GIL is woken


def fit(ending, ranks, stop):
    global group
    try:
        with place_of("cpu", ranks):
            group = dist.group.WORLD
            if ending is not None:
                raise ending
        return types.SimpleNamespace(trainer="x", steps=1, wall_s=0.1, loss=None)
    finally:
        if ranks.rank == 0:
            select.select([ready], [], [], 60)
        else:
            # Rank 0 does not answer, so gloo's thread drops these tensors when rank 0 exits. It
            # takes the GIL for each of them, and this thread does not give it away.
            sys.setswitchinterval(1000)
            group.allreduce_coalesced([torch.ones(1) for _ in range(20_000)])
            os.write(tell_ready, b"!")
            spin_until_gone(pids[0])


def spin_until_gone(pid):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            until = min(until, time.monotonic() + 0.1)


def start(ending, rank, port):
    pid = os.fork()
    if pid:
        return pid
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_PORT=str(port))
    worker.read_task, worker.fit, worker.slow = lambda _: ending, fit, Slow()
    worker.leave(worker.main(["folder"]))


for ending in ENDINGS:
    port = free_port()
    pids.clear()
    for rank in range(2):
        pids.append(start(ending, rank, port))
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)
    os.read(ready, 1)
"""


def test_ranks_exit_with_their_code_while_threads_of_gloo_hold_tensors(
    need: Callable[[str], None],
) -> None:
    need("torch")
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", LEAVING],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("train:")]
    codes = [line.split() for line in lines]
    assert codes == [[code, code] for code in ("0", "143", "2", "4", "1", "130")], done.stderr
    assert "a bug" in done.stderr


def test_invalid_folders_and_tasks_raise_input_error(tmp_path: Path, start, prepared: Path) -> None:  # type: ignore[no-untyped-def]
    (nothing,) = start(tmp_path)
    _, said = nothing.communicate(timeout=600)
    assert nothing.returncode == 2
    assert "task.json: no such file" in said
    task = TrainTask(train=TrainSpec(), data=str(prepared / "table"), out=str(tmp_path))
    (empty,) = start(write_task(task))
    _, said = empty.communicate(timeout=600)
    assert empty.returncode == 2
    assert "no trainer is set" in said
