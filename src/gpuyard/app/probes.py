"""Short trainings of several sizes, in a process of their own, so that their memory is theirs alone.

python -m gpuyard.app.probes OUT.json < SHAPES.json
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
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
from gpuyard.measure import Tell, silent
from gpuyard.perf.local import Probe, Work, mlp_work, plain_bytes, transformer_work, trees_work

__all__ = ["Shape", "probe", "probes_of", "shapes_of"]

LAP = 3  # steps between two readings of the clock; of steps that are long, one
LONG_FLOP = 2e8  # of such a step
LEAST_LAPS, TIMED_S = 5, 0.2  # of one training
MOST_STEPS, BATCHES = 3000, 60  # more steps than are needed; batches in the data
MOST_ROUNDS = 100  # of trees, as a training has: a hundred trees on, few rows hold nothing more to split
SEED = 3
SWEEPS = 3  # over all shapes
LIMIT_S = 900.0
TRIED = "tried\n"  # what the other process says after each


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
# Width, layers, batch and features of perceptrons.
MLPS = (
    (32, 2, 32, 16), (64, 2, 256, 64), (64, 4, 16, 32), (128, 1, 1024, 32), (192, 2, 256, 16), (256, 3, 128, 64),
    (256, 2, 32, 64), (512, 2, 64, 256), (384, 8, 64, 64), (256, 6, 512, 32), (1024, 2, 256, 128), (1024, 1, 16, 64),
    (640, 4, 256, 40), (1024, 4, 32, 512), (2048, 2, 128, 64),
)  # fmt: skip
# Width, layers, batch, tokens and vocabulary of transformers.
TRANSFORMERS = (
    (64, 1, 2, 33, 128), (64, 2, 4, 65, 256), (64, 4, 8, 33, 1024), (128, 1, 4, 65, 1024), (96, 2, 8, 129, 256),
    (128, 3, 1, 65, 4096), (128, 2, 8, 65, 512), (160, 2, 16, 65, 256), (128, 6, 4, 129, 256), (256, 2, 4, 129, 1024),
    (192, 4, 16, 33, 2048), (384, 3, 2, 257, 512), (320, 5, 2, 129, 256), (256, 4, 8, 65, 4096),
)  # fmt: skip
# Rows, features and leaves of boosted trees.
TREES = (
    (80, 10, 31), (300, 20, 31), (500, 10, 15), (500, 100, 31), (1500, 40, 31), (5000, 20, 31), (5000, 200, 15),
    (20000, 10, 15), (10000, 10, 127), (20000, 50, 63), (50000, 30, 31), (100000, 10, 31),
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
    summary = fit_data(_spec(shape, MOST_STEPS), data, watch=_enough(_lap(shape))).summary
    return Probe(
        trainer=shape.trainer, label=shape.label, work=_work(shape), step_s=summary.step_s,
        memory_bytes=summary.memory_bytes,
    )  # fmt: skip


def _enough(lap: int) -> Callable[[StepMetrics], bool]:
    """Says when the steps after the first, which compiles, have been timed for long enough."""
    seen: list[float] = []

    def watch(metrics: StepMetrics) -> bool:
        """Sees a reading of the clock; true to end the training."""
        seen.append((metrics.step_s or 0.0) * lap if seen else 0.0)
        return len(seen) > LEAST_LAPS and sum(seen) > TIMED_S

    return watch


def _work(shape: Shape) -> Work:
    """What a step of the shape does."""
    if shape.vocab:
        return transformer_work(shape.transformer, shape.batch, shape.inputs)
    if shape.trainer == "trees":
        return trees_work(shape.batch, shape.inputs, shape.width)
    return mlp_work((shape.inputs, *(shape.width,) * shape.layers, 2), shape.batch)


def _lap(shape: Shape) -> int:
    """Steps between two readings of the clock."""
    return 1 if _work(shape).flop > LONG_FLOP else LAP


def _spec(shape: Shape, steps: int) -> TrainSpec:
    """The training of a shape."""
    lap, batch = _lap(shape), shape.batch
    if shape.trainer == "trees":
        return TrainSpec(log_every=lap, trees=Trees(rounds=min(steps, MOST_ROUNDS), leaves=shape.width))
    if shape.trainer == "jax_mlp":
        return TrainSpec(log_every=lap, jax_mlp=Mlp(hidden=shape.width, layers=shape.layers, batch=batch, steps=steps))
    if shape.trainer == "torch_mlp":
        torch_mlp = TorchMlp(hidden=shape.width, layers=shape.layers, batch=batch, steps=steps)
        return TrainSpec(log_every=lap, torch_mlp=torch_mlp)
    if shape.trainer == "jax_transformer":
        return TrainSpec(log_every=lap, jax_transformer=Network(shape=shape.transformer, batch=batch, steps=steps))
    return TrainSpec(log_every=lap, torch_transformer=TorchNetwork(shape=shape.transformer, batch=batch, steps=steps))


def probes_of(
    trainer: str, shapes: Sequence[Shape] | None = None, sweeps: int = SWEEPS, tell: Tell = silent
) -> tuple[Probe, ...]:
    """The trainings of a trainer, tried in another process; the usual shapes where none are given."""
    asked = _Shapes(shapes=tuple(shapes if shapes is not None else shapes_of(trainer)), sweeps=sweeps)
    with tempfile.TemporaryDirectory(prefix="gpuyard-probes-") as folder:
        out, log = Path(folder) / "probes.json", Path(folder) / "log"
        code = _tried(asked, trainer, out, log, tell)
        if code != 0 or not out.exists():
            said = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it ended at once"])[-1]
            raise RefusedError(f"probes of {trainer}", said, "pip install 'gpuyard[run,jax,torch]'")
        return load_json(out.read_text(encoding="utf-8"), _Probes, str(out)).probes


def _tried(asked: _Shapes, trainer: str, out: Path, log: Path, tell: Tell) -> int:
    """Runs the other process, which says a line after every training; gives its exit code."""
    total, done = len(asked.shapes) * asked.sweeps, 0
    given = out.with_name("shapes.json")
    given.write_text(dump_json(asked), encoding="utf-8")
    cache = {"JAX_COMPILATION_CACHE_DIR": str(out.parent), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    with given.open("rb") as shapes, log.open("wb") as noise:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuyard.app.probes", str(out)], stdin=shapes, stdout=subprocess.PIPE, stderr=noise,
            text=True, env={**os.environ, **cache},
        )  # fmt: skip
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            tell(f"short trainings of {trainer}", done, total)
            for line in process.stdout:
                done += line == TRIED
                tell(f"short trainings of {trainer}", done, total)
            code = process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.communicate()
    if code == -signal.SIGKILL:
        what = f"were killed: they took more than {LIMIT_S:g} s, or more memory than there is"
        raise RefusedError(f"probes of {trainer}", what, "stop what else runs here, or add --quick")
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """What the other process is told."""

    shapes: tuple[Shape, ...]
    sweeps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probes:
    """What the other process tells."""

    probes: tuple[Probe, ...]


def main(words: list[str]) -> None:
    """Tries every shape, the smallest first: a process's peak of memory only grows. Then again, at another moment:
    what else the machine does, and its neighbours, only makes a training slower, so the fastest sweep counts."""
    asked = load_json(sys.stdin.read(), _Shapes, "shapes")
    shapes = sorted(asked.shapes, key=lambda shape: plain_bytes(_work(shape)))
    first = [_said(probe(shape)) for shape in shapes]
    times_s = [[each.step_s for each in first]]
    times_s += [[_said(probe(shape)).step_s for shape in shapes] for _ in range(asked.sweeps - 1)]
    probes = tuple(
        replace(each, step_s=min(times)) for each, times in zip(first, zip(*times_s, strict=True), strict=True)
    )
    write_whole(Path(words[0]), dump_json(_Probes(probes=probes)))


def _said(done: Probe) -> Probe:
    """The probe, after its line for the process that waits."""
    sys.stdout.write(TRIED)
    sys.stdout.flush()
    return done


if __name__ == "__main__":
    main(sys.argv[1:])
