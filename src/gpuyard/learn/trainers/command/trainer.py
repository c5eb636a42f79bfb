"""The trainer that runs the user's own program: its metrics and the model it exports."""

from __future__ import annotations

import itertools
import resource
import shutil
import statistics
import typing
from pathlib import Path

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.onnx_predictor import OnnxPredictor
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    TabularData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.command.command_settings import CommandSpec
from gpuyard.learn.trainers.command.program import environment, run_program
from gpuyard.registry.bundle import ONNX, WEIGHTS, Tensor

WHERE = "train: command"


class CommandTrainer:
    """Runs the user's own program."""

    def __init__(self, train: TrainSpec, spec: CommandSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedCommand:
        """Run the program and return what it exported."""
        if run.folder is None:
            raise InputError.one(WHERE, "requires a task folder", "run it as a task")
        history: list[StepMetrics] = []

        def record(metrics: StepMetrics) -> bool:
            history.append(metrics)
            return run.record(metrics) if run.ranks.first else False

        folder = run.folder.resolve()
        for name in ("checkpoints", "exported"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        data_folder = "" if data.folder is None else str(data.folder.resolve())
        env = environment(
            self.spec, run.ranks, data=data_folder, folder=folder, seed=self.train.seed
        )
        run_program(self.spec, env, record, run.stop)
        return FittedCommand(folder / "exported", data.train, summary_of(history))


class FittedCommand:
    """The model that a program exported."""

    def __init__(self, folder: Path, data: object, summary: TrainingSummary) -> None:
        self.folder, self.data, self.summary = folder, data, summary

    def predict(self, rows: Array) -> Array:
        """Return the probabilities or values of the program's model.onnx."""
        if not (self.folder / ONNX).is_file():
            raise InputError.one(WHERE, f"wrote no {ONNX}", f"write {ONNX} into $GPUYARD_BUNDLE")
        table = self.data
        assert isinstance(table, TabularData)
        predictor = OnnxPredictor(self.folder / ONNX, table.problem, table.classes)
        predictor.check_shape(rows.shape[1:])
        return predictor.predict((rows,))

    def export(self, folder: Path) -> Exported | None:
        """Copy the files that the program wrote; None if there are none."""
        if not any(self.folder.iterdir()):
            return None
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        if (folder / WEIGHTS / "config.json").is_file():
            return Exported(
                kind="language",
                inputs=(Tensor(name="input_ids", dtype="int64", shape=(-1, -1)),),
                outputs=(Tensor(name="logits", dtype="float32", shape=(-1, -1, -1)),),
                framework="command",
            )
        if not (folder / ONNX).is_file():
            raise InputError.one(
                WHERE,
                f"wrote neither {ONNX} nor {WEIGHTS}/config.json",
                "write one of them into $GPUYARD_BUNDLE",
            )
        inputs, outputs = _tensors(folder / ONNX)
        table = self.data
        return Exported(
            kind=table.problem if isinstance(table, TabularData) else "regression",
            inputs=inputs,
            outputs=outputs,
            classes=table.classes if isinstance(table, TabularData) else (),
            framework="command",
        )


def _tensors(path: Path) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    import onnx

    graph = onnx.load(str(path)).graph

    def tensor(value: typing.Any) -> Tensor:
        kind = value.type.tensor_type
        shape = tuple(
            size.dim_value if size.HasField("dim_value") else -1 for size in kind.shape.dim
        )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        name = "str" if dtype.kind == "O" else str(dtype)
        return Tensor(name=value.name, dtype=name, shape=shape)

    weights = {initial.name for initial in graph.initializer}
    return (
        tuple(tensor(value) for value in graph.input if value.name not in weights),
        tuple(tensor(value) for value in graph.output),
    )


def summary_of(history: list[StepMetrics]) -> TrainingSummary:
    """Summarise the program's metrics; step time from timestamps if it reports none."""
    # Printed metrics and those in the file arrive in any order.
    history = sorted(history, key=lambda metrics: metrics.step)
    gaps = [
        (second.time_s - first.time_s) / (second.step - first.step)
        for first, second in itertools.pairwise(history)
        if second.step > first.step and first.time_s and second.time_s
    ]
    reported = [metrics.step_s for metrics in history if metrics.step_s is not None]
    step_s = statistics.median(reported or gaps or [0.0])
    memory = [metrics.memory_bytes for metrics in history if metrics.memory_bytes is not None]
    others = dict(itertools.chain.from_iterable(metrics.others for metrics in history))
    return TrainingSummary(
        steps=max((metrics.step for metrics in history), default=0),
        step_s=step_s,
        samples_per_s=_last(history, "samples_per_s") or 0.0,
        tokens_per_s=_last(history, "tokens_per_s"),
        memory_bytes=max(
            memory, default=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0
        ),
        model_flop_per_step=(_last(history, "flop_per_s") or 0.0) * step_s,
        parameters_count=others.get("parameters", 0.0),
        device="command",
        loss=_last(history, "loss"),
        validation_loss=_last(history, "validation_loss"),
    )


def _last(history: list[StepMetrics], name: str) -> float | None:
    values = [value for metrics in history if (value := getattr(metrics, name)) is not None]
    return values[-1] if values else None


def make(spec: TrainSpec) -> CommandTrainer:
    """Return the trainer of a spec."""
    assert spec.command is not None
    return CommandTrainer(spec, spec.command)
