"""Short trainings of several sizes, in a process of their own, so that their memory is theirs alone.

python -m gpuyard.app.probes OUT.json < SHAPES.json
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuyard.catalog import Transformer
from gpuyard.document import dump_json, load_json
from gpuyard.errors import RefusedError
from gpuyard.home import write_whole
from gpuyard.learn import Table, Tokens, TrainSpec, fit_data
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import Mlp, Network, TorchMlp, TorchNetwork, Trees
from gpuyard.perf.local import Probe, Work, mlp_work, plain_bytes, transformer_work, trees_work

__all__ = ["Shape", "probe", "probes_of", "shapes_of"]

LAP = 3  # steps between two readings of the clock
LEAST_LAPS, TIMED_S = 6, 0.4  # of one training
MOST_STEPS, BATCHES = 3000, 60  # more steps than are needed; batches in the data
SEED = 3
PROCESSES = 2  # that try each shape
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A short training: trees, a perceptron or a transformer by leaves or width, depth, inputs, rows or batch."""

    trainer: str
    width: int
    layers: int
    batch: int
    inputs: int  # features of a row, or tokens of a sequence
    vocab: int = 0

    @property
    def label(self) -> str:
        """The shape in words."""
        kind = "tokens" if self.vocab else "features"
        return f"{self.layers} layers of {self.width}, batch {self.batch}, {self.inputs} {kind}"

    @property
    def transformer(self) -> Transformer:
        """As a transformer: heads of 32, an MLP of 2.75 widths (Llama's ratio)."""
        return Transformer(
            layers=self.layers, hidden=self.width, heads=max(1, self.width // 32), ffn=self.width * 11 // 4,
            vocab=self.vocab, tied_embeddings=False,
        )  # fmt: skip


# Sizes between which models of this machine's class lie; what is predicted later lies between and beyond them.
MLPS = ((32, 2, 32, 16), (64, 2, 256, 64), (256, 3, 128, 64), (512, 2, 64, 256), (1024, 2, 256, 128),
        (256, 6, 512, 32), (1024, 4, 32, 512), (2048, 2, 128, 64))  # fmt: skip
TRANSFORMERS = (
    (64, 2, 4, 65, 256), (128, 2, 8, 65, 512), (128, 6, 4, 129, 256), (256, 2, 4, 129, 1024), (256, 4, 8, 65, 4096),
    (384, 3, 2, 257, 512), (192, 4, 16, 33, 2048), (320, 5, 2, 129, 256),
)  # fmt: skip


# Rows, features and leaves of boosted trees.
TREES = (
    (500, 10, 15), (500, 100, 31), (5000, 20, 31), (20000, 10, 15), (20000, 50, 63), (50000, 30, 31), (100000, 10, 31),
    (5000, 200, 15),
)  # fmt: skip


def shapes_of(trainer: str, *, quick: bool = False) -> tuple[Shape, ...]:
    """The trainings that are tried; every other one of them when it should be quick."""
    if trainer == "trees":
        shapes = [Shape(trainer=trainer, width=w, layers=1, batch=b, inputs=f) for b, f, w in TREES]
    elif trainer.endswith("mlp"):
        shapes = [Shape(trainer=trainer, width=w, layers=d, batch=b, inputs=f) for w, d, b, f in MLPS]
    else:
        shapes = [
            Shape(trainer=trainer, width=w, layers=d, batch=b, inputs=s, vocab=v) for w, d, b, s, v in TRANSFORMERS
        ]
    return tuple(shapes[:: 2 if quick else 1])


def probe(shape: Shape) -> Probe:
    """Trains until the median step is known."""
    rng = np.random.default_rng(SEED)
    if shape.vocab:
        data: Table | Tokens = Tokens(
            ids=rng.integers(0, shape.vocab, (shape.batch * BATCHES, shape.inputs), dtype=np.uint16), vocab=shape.vocab
        )
    else:
        rows = shape.batch if shape.trainer == "trees" else shape.batch * BATCHES
        x = rng.standard_normal((rows, shape.inputs), dtype=np.float32)
        names = tuple(f"x{number}" for number in range(shape.inputs))
        data = Table(x=x, y=rng.integers(0, 2, rows), names=names, problem="classification", classes=("0", "1"))
    summary = fit_data(_spec(shape, MOST_STEPS), data, watch=_enough()).summary
    return Probe(
        trainer=shape.trainer, label=shape.label, work=_work(shape), step_s=summary.step_s,
        memory_bytes=summary.memory_bytes,
    )  # fmt: skip


def _enough() -> Callable[[StepMetrics], bool]:
    """Says when the steps after the first, which compiles, have been timed for long enough."""
    seen: list[float] = []

    def watch(metrics: StepMetrics) -> bool:
        """Sees a reading of the clock; true to end the training."""
        seen.append((metrics.step_s or 0.0) * LAP if seen else 0.0)
        return len(seen) > LEAST_LAPS and sum(seen) > TIMED_S

    return watch


def _work(shape: Shape) -> Work:
    """What a step of the shape does."""
    if shape.vocab:
        return transformer_work(shape.transformer, shape.batch, shape.inputs)
    if shape.trainer == "trees":
        return trees_work(shape.batch, shape.inputs, shape.width)
    return mlp_work((shape.inputs, *(shape.width,) * shape.layers, 2), shape.batch)


def _spec(shape: Shape, steps: int) -> TrainSpec:
    """The training of a shape."""
    if shape.trainer == "trees":
        return TrainSpec(log_every=LAP, trees=Trees(rounds=steps, leaves=shape.width))
    if shape.trainer == "jax_mlp":
        return TrainSpec(
            log_every=LAP, jax_mlp=Mlp(hidden=shape.width, layers=shape.layers, batch=shape.batch, steps=steps)
        )
    if shape.trainer == "torch_mlp":
        return TrainSpec(
            log_every=LAP, torch_mlp=TorchMlp(hidden=shape.width, layers=shape.layers, batch=shape.batch, steps=steps)
        )
    if shape.trainer == "jax_transformer":
        return TrainSpec(
            log_every=LAP, jax_transformer=Network(shape=shape.transformer, batch=shape.batch, steps=steps)
        )
    return TrainSpec(
        log_every=LAP, torch_transformer=TorchNetwork(shape=shape.transformer, batch=shape.batch, steps=steps)
    )


def probes_of(trainer: str, shapes: Sequence[Shape] | None = None, processes: int = PROCESSES) -> tuple[Probe, ...]:
    """The trainings of a trainer, tried in other processes, of which each shape's median counts: where its memory lies
    makes a process faster or slower for as long as it lives. The usual shapes where none are given."""
    asked = _Shapes(shapes=tuple(shapes if shapes is not None else shapes_of(trainer)))
    tried = [_tried(trainer, asked) for _ in range(processes)]
    return tuple(
        replace(same[0], step_s=statistics.median(each.step_s for each in same)) for same in zip(*tried, strict=True)
    )


def _tried(trainer: str, asked: _Shapes) -> tuple[Probe, ...]:
    """The trainings in one other process."""
    with tempfile.TemporaryDirectory(prefix="gpuyard-probes-") as folder:
        out = Path(folder) / "probes.json"
        words = [sys.executable, "-m", "gpuyard.app.probes", str(out)]
        done = subprocess.run(
            words, input=dump_json(asked), capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        if done.returncode != 0 or not out.exists():
            said = (done.stderr.strip().splitlines() or ["it ended at once"])[-1]
            raise RefusedError(f"probes of {trainer}", said, "pip install 'gpuyard[run,jax,torch]'")
        return load_json(out.read_text(encoding="utf-8"), _Probes, str(out)).probes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """What the other process is told."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probes:
    """What the other process tells."""

    probes: tuple[Probe, ...]


def main(words: list[str]) -> None:
    """Tries every shape, the smallest first: a process's peak of memory only grows."""
    asked = load_json(sys.stdin.read(), _Shapes, "shapes").shapes
    shapes = sorted(asked, key=lambda shape: plain_bytes(_work(shape)))
    write_whole(Path(words[0]), dump_json(_Probes(probes=tuple(probe(shape) for shape in shapes))))


if __name__ == "__main__":
    main(sys.argv[1:])
