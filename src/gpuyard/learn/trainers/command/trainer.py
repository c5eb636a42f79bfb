"""The trainer around the program: what it measured, and the model that it left."""

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
from gpuyard.learn.spec import Command, TrainSpec
from gpuyard.learn.trainer import Exported, Run, Summary, Table, Training
from gpuyard.learn.trainers.command.program import environment, run_program
from gpuyard.registry import ONNX, WEIGHTS, Tensor

__all__ = ["CommandTrainer", "make"]

WHERE = "train: command"


class CommandTrainer:
    """The trainer."""

    def __init__(self, train: TrainSpec, spec: Command) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: Training, run: Run) -> FittedCommand:
        """What the program left, when it has ended well."""
        if run.folder is None:
            raise InputError.one(WHERE, "needs a folder of its own", "run it as a task")
        seen: list[StepMetrics] = []

        def record(metrics: StepMetrics) -> bool:
            """Keeps the line, and passes it on."""
            seen.append(metrics)
            return run.record(metrics) if run.ranks.first else False

        folder = run.folder.resolve()
        for name in ("checkpoints", "exported"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        read = "" if data.folder is None else str(data.folder.resolve())
        env = environment(self.spec, run.ranks, data=read, folder=folder, seed=self.train.seed)
        run_program(self.spec, env, record, run.stop)
        return FittedCommand(folder / "exported", data.train, summary_of(seen))


class FittedCommand:
    """What a program left."""

    def __init__(self, folder: Path, data: object, summary: Summary) -> None:
        self.folder, self.data, self._summary = folder, data, summary

    @property
    def summary(self) -> Summary:
        """What the training came to, as the program measured it."""
        return self._summary

    def predict(self, rows: Array) -> Array:
        """The first output of the program's model.onnx."""
        if not (self.folder / ONNX).is_file():
            raise InputError.one(WHERE, f"left no {ONNX}", f"write {ONNX} into $GPUYARD_BUNDLE")
        import onnxruntime

        session = onnxruntime.InferenceSession(str(self.folder / ONNX), providers=["CPUExecutionProvider"])
        found: Array = session.run(None, {session.get_inputs()[0].name: rows})[0]
        return found

    def export(self, folder: Path) -> Exported | None:
        """Copies what the program wrote; None when it wrote nothing."""
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
                WHERE, f"left neither {ONNX} nor {WEIGHTS}/config.json", "write one of them into $GPUYARD_BUNDLE"
            )
        inputs, outputs = _tensors(folder / ONNX)
        table = self.data
        return Exported(
            kind=table.problem if isinstance(table, Table) else "regression",
            inputs=inputs,
            outputs=outputs,
            classes=table.classes if isinstance(table, Table) else (),
            framework="command",
        )


def _tensors(path: Path) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What goes into an ONNX model and comes out."""
    import onnx

    graph = onnx.load(str(path)).graph
    names = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.INT64: "int64", onnx.TensorProto.DOUBLE: "float64"}

    def tensor(value: typing.Any) -> Tensor:
        """One input or output."""
        kind = value.type.tensor_type
        shape = tuple(size.dim_value if size.HasField("dim_value") else -1 for size in kind.shape.dim)
        return Tensor(name=value.name, dtype=names.get(kind.elem_type, "float32"), shape=shape)

    weights = {initial.name for initial in graph.initializer}
    return (
        tuple(tensor(value) for value in graph.input if value.name not in weights),
        tuple(tensor(value) for value in graph.output),
    )


def summary_of(seen: list[StepMetrics]) -> Summary:
    """What the program measured; seconds of a step from its times where it does not say, zero where it says nothing."""
    seen = sorted(seen, key=lambda metrics: metrics.step)  # what is printed and what is in the file meet in any order
    gaps = [
        (second.time_s - first.time_s) / (second.step - first.step)
        for first, second in itertools.pairwise(seen)
        if second.step > first.step and first.time_s and second.time_s
    ]
    told = [metrics.step_s for metrics in seen if metrics.step_s is not None]
    step_s = statistics.median(told or gaps or [0.0])
    memory = [metrics.memory_bytes for metrics in seen if metrics.memory_bytes is not None]
    others = dict(itertools.chain.from_iterable(metrics.others for metrics in seen))
    return Summary(
        steps=max((metrics.step for metrics in seen), default=0),
        step_s=step_s,
        samples_per_s=_last(seen, "samples_per_s") or 0.0,
        tokens_per_s=_last(seen, "tokens_per_s"),
        memory_bytes=max(memory, default=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0),
        model_flop_per_step=(_last(seen, "flop_per_s") or 0.0) * step_s,
        parameters_count=others.get("parameters", 0.0),
        device="command",
        loss=_last(seen, "loss"),
        validation_loss=_last(seen, "validation_loss"),
    )


def _last(seen: list[StepMetrics], name: str) -> float | None:
    """The last value of a name."""
    found = [value for metrics in seen if (value := getattr(metrics, name)) is not None]
    return found[-1] if found else None


def make(spec: TrainSpec) -> CommandTrainer:
    """The trainer of a spec."""
    assert spec.command is not None
    return CommandTrainer(spec, spec.command)
