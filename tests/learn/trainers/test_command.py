"""The user's own command: environment, metrics, exported model and exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.learn.fit import fit
from gpuyard.learn.metrics_log import StepMetrics, read_metrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.task import TrainTask, write_task
from gpuyard.learn.trainer import StoppedError, TrainerError
from gpuyard.learn.trainers.command.command_settings import CommandSpec, EnvVarSpec
from gpuyard.learn.trainers.command.program import _lines, metrics_of
from gpuyard.learn.trainers.command.trainer import summary_of
from gpuyard.registry.bundle import read_bundle

PROGRAM = """
import json, os, pathlib, sys, time
checkpoint = pathlib.Path(os.environ["CHECKPOINT_DIR"]) / "step"
begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from step", begin, os.environ["GREETING"], flush=True)
assert (pathlib.Path(os.environ["DATA_DIR"]) / "manifest.json").exists()
assert (os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["GPUYARD_SEED"]) == ("1", "2", "5")
for step in range(begin + 1, 5):
    line = {"step": step, "loss": 1 / step, "step_s": 0.5, "samples_per_s": 8.0, "flop_per_s": 100.0, "accuracy": 0.5}
    if step % 2:
        print(json.dumps(line), flush=True)
    else:
        with open(os.environ["GPUYARD_METRICS"], "a") as file:
            file.write(json.dumps(line) + "\\n")
    checkpoint.write_text(str(step))
    if "fail" in sys.argv and step == 2:
        sys.exit("out of luck")
"""
MODEL = """
import os, onnx
from onnx import TensorProto, helper
graph = helper.make_graph(
    [helper.make_node("Softmax", ["x"], ["probabilities"], axis=1)], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 2])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, os.path.join(os.environ["GPUYARD_BUNDLE"], "model.onnx"))
"""
ENDLESS = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
for step in range(1, 100000):
    print(json.dumps({"step": step}), flush=True)
    time.sleep(0.01)
"""


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    polars = pytest.importorskip("polars")
    from gpuyard.datasets.prepare import prepare
    from gpuyard.datasets.spec import DataSpec

    folder = tmp_path_factory.mktemp("data")
    polars.DataFrame({"a": [0.0, 1.0] * 10, "b": [1.0, 2.0] * 10, "y": ["u", "v"] * 10}).write_csv(
        folder / "rows.csv"
    )
    prepare(DataSpec(source="rows.csv", label="y"), base=folder, out=folder / "prepared")
    return folder / "prepared"


def task_of(data: Path, out: Path, program: str, *arguments: str) -> TrainTask:
    (out / "program.py").write_text(program)
    command = CommandSpec(
        run=(sys.executable, str(out / "program.py"), *arguments),
        env=(EnvVarSpec(name="GREETING", value="hello"),),
    )
    return TrainTask(
        train=TrainSpec(seed=5, command=command), data=str(data), out=str(out / "task")
    )


def alive(text: str) -> bool:
    lines = [
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if os.access(path, os.R_OK)
    ]
    return any(text.encode() in line for line in lines)


def test_metrics_are_read_from_output_and_file(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = task_of(data, tmp_path, PROGRAM)
    result = fit(task, Ranks(rank=1, world=2))
    assert (result.steps, result.step_s, result.samples_per_s, result.model_flop_per_step) == (
        4,
        0.5,
        8.0,
        50.0,
    )
    assert result.loss == 0.25
    assert result.memory_bytes > 0
    assert result.bundle is None
    assert "from step 0 hello" in capsys.readouterr().out
    assert not (tmp_path / "task" / "metrics.jsonl").exists()  # the first process writes it


def test_summary_sorts_metrics_by_step() -> None:
    history = [StepMetrics(step=step, time_s=float(step), loss=1 / step) for step in (1, 2, 4, 3)]
    summary = summary_of(history)
    assert (summary.steps, summary.step_s, summary.loss) == (4, 1.0, 0.25)


def test_failed_program_resumes_from_its_own_checkpoint(data: Path, tmp_path: Path) -> None:
    ranks = Ranks(rank=1, world=2)
    with pytest.raises(TrainerError, match=r"(?s)exited with 1.*out of luck"):
        fit(task_of(data, tmp_path, PROGRAM, "fail"), ranks)
    assert fit(task_of(data, tmp_path, PROGRAM), ranks).steps == 4


def test_exported_model_becomes_the_bundle(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    result = fit(task_of(data, tmp_path, MODEL))
    bundle = read_bundle(tmp_path / "task" / "bundle")
    assert result.bundle == str(tmp_path / "task" / "bundle")
    assert (bundle.trainer, bundle.classes) == ("command", ("u", "v"))
    assert [(tensor.name, tensor.shape) for tensor in bundle.outputs] == [
        ("probabilities", (-1, 2))
    ]


def test_stop_request_terminates_the_program(data: Path, tmp_path: Path) -> None:
    task = task_of(data, tmp_path, ENDLESS)
    with pytest.raises(StoppedError):
        fit(task, stop=lambda: len(read_metrics(tmp_path / "task" / "metrics.jsonl")) > 3)
    assert not alive(str(tmp_path / "program.py"))


def test_program_is_killed_with_its_worker(data: Path, tmp_path: Path) -> None:
    folder = write_task(task_of(data, tmp_path, ENDLESS))
    worker = subprocess.Popen(
        [sys.executable, "-m", "gpuyard.learn.worker", str(folder)], stdout=subprocess.DEVNULL
    )
    try:
        while len(read_metrics(folder / "metrics.jsonl")) < 3:
            assert worker.poll() is None
            time.sleep(0.02)
        assert alive(str(tmp_path / "program.py"))
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    until_s = time.monotonic() + 120.0
    while time.monotonic() < until_s:
        if not alive(str(tmp_path / "program.py")):
            return
        time.sleep(0.02)
    pytest.fail("the program outlived its worker")


def test_output_may_be_closed_while_it_is_read(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print('late')"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()  # as a stop does while lines are still to come
        assert list(_lines(process, tmp_path / "metrics.jsonl")) == [None]


def test_missing_program_raises_external_error(data: Path, tmp_path: Path) -> None:
    spec = TrainSpec(command=CommandSpec(run=("no-such-program-anywhere",)))
    with pytest.raises(ExternalError, match="no such program"):
        fit(TrainTask(train=spec, data=str(data), out=str(tmp_path)))


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        (
            '{"step": 3, "loss": 1, "top1": 0.5}',
            StepMetrics(step=3, loss=1.0, others=(("top1", 0.5),)),
        ),
        ('{"step": 3, "loss": "low", "fine": true}', StepMetrics(step=3)),
        ('{"step": 3, "loss": NaN, "step_s": 1e999}', StepMetrics(step=3)),
        ('{"step": 1.5}', None),
        ('{"step": true}', None),
        ('{"loss": 1}', None),
        ("[1, 2]", None),
        ("step 3: loss 1", None),
        ("", None),
    ],
)
def test_metrics_lines_are_parsed(line: str, metrics: StepMetrics | None) -> None:
    assert metrics_of(line) == metrics
