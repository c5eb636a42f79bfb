"""Short training runs of several sizes, in a separate process to measure its memory.

python -m gpuyard.app.training_probes OUT.json < SHAPES.json
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

from gpuyard.catalog.models import Transformer
from gpuyard.document.encode import dump_json, load_json, load_json_file
from gpuyard.errors import ExternalError
from gpuyard.home import write_atomic
from gpuyard.learn.fit import fit_data
from gpuyard.learn.metrics_log import StepMetrics
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import TabularData, TokenData
from gpuyard.learn.trainers.network_settings import MlpSpec, TransformerSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec, TorchTransformerSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.measure.progress import ProgressCallback, silent
from gpuyard.perf.local.predict import plain_bytes
from gpuyard.perf.local.profile import Probe
from gpuyard.perf.local.step_work import (
    LocalStepWork,
    mlp_step_work,
    transformer_step_work,
    trees_step_work,
)

LAP = 3  # steps between two readings of the clock; of steps that are long, one
LONG_FLOP = 2e8  # of such a step
LEAST_LAPS, TIMED_S = 5, 0.2  # of one training
MOST_STEPS, BATCHES = 3000, 60  # more steps than are needed; batches in the data
MOST_ROUNDS = (
    100  # of trees, as a training has: a hundred trees on, few rows hold nothing more to split
)
SEED = 3
SWEEPS = 3  # over all shapes
LIMIT_S = 900.0
TRIED = "tried\n"  # what the other process says after each


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeShape:
    """A short training run: trees, a perceptron or a transformer, and its size."""

    trainer: str
    width: int
    layers: int
    batch: int
    inputs: int  # features of a row, or tokens of a sequence
    vocab: int = 0

    @property
    def label(self) -> str:
        kind = "tokens" if self.vocab else "features"
        return f"{self.layers} layers of {self.width}, batch {self.batch}, {self.inputs} {kind}"

    @property
    def transformer(self) -> Transformer:
        """The shape as a transformer: heads of 32, an MLP of 2.75 widths (Llama's ratio)."""
        return Transformer(
            layers=self.layers,
            hidden=self.width,
            heads=max(1, self.width // 32),
            ffn=self.width * 11 // 4,
            vocab=self.vocab,
            tied_embeddings=False,
        )


# Sizes of models that a machine of this class trains; predictions interpolate and extrapolate.
# Width, layers, batch and features of perceptrons.
MLPS = (
    (32, 2, 32, 16), (64, 2, 256, 64), (64, 4, 16, 32), (128, 1, 1024, 32), (192, 2, 256, 16),
    (256, 3, 128, 64), (256, 2, 32, 64), (512, 2, 64, 256), (384, 8, 64, 64), (256, 6, 512, 32),
    (1024, 2, 256, 128), (1024, 1, 16, 64), (640, 4, 256, 40), (1024, 4, 32, 512),
    (2048, 2, 128, 64),
)  # fmt: skip
# Width, layers, batch, tokens and vocabulary of transformers.
TRANSFORMERS = (
    (64, 1, 2, 33, 128), (64, 2, 4, 65, 256), (64, 4, 8, 33, 1024), (128, 1, 4, 65, 1024),
    (96, 2, 8, 129, 256), (128, 3, 1, 65, 4096), (128, 2, 8, 65, 512), (160, 2, 16, 65, 256),
    (128, 6, 4, 129, 256), (256, 2, 4, 129, 1024), (192, 4, 16, 33, 2048), (384, 3, 2, 257, 512),
    (320, 5, 2, 129, 256), (256, 4, 8, 65, 4096),
)  # fmt: skip
# Rows, features and leaves of boosted trees.
TREES = (
    (80, 10, 31), (300, 20, 31), (500, 10, 15), (500, 100, 31), (1500, 40, 31), (5000, 20, 31),
    (5000, 200, 15), (20000, 10, 15), (10000, 10, 127), (20000, 50, 63), (50000, 30, 31),
    (100000, 10, 31),
)  # fmt: skip


def shapes_of(trainer: str, *, quick: bool = False) -> tuple[ProbeShape, ...]:
    """Shapes to try; every other one when `quick`."""
    if trainer == "trees":
        shapes = [
            ProbeShape(trainer=trainer, width=w, layers=1, batch=b, inputs=f) for b, f, w in TREES
        ]
    elif trainer.endswith("mlp"):
        shapes = [
            ProbeShape(trainer=trainer, width=w, layers=d, batch=b, inputs=f) for w, d, b, f in MLPS
        ]
    else:
        shapes = [
            ProbeShape(trainer=trainer, width=w, layers=d, batch=b, inputs=s, vocab=v)
            for w, d, b, s, v in TRANSFORMERS
        ]
    return tuple(shapes[:: 2 if quick else 1])


def probe(shape: ProbeShape) -> Probe:
    """Train until the median step time is known."""
    rng = np.random.default_rng(SEED)
    if shape.vocab:
        data: TabularData | TokenData = TokenData(
            ids=rng.integers(
                0, shape.vocab, (shape.batch * BATCHES, shape.inputs), dtype=np.uint16
            ),
            vocab=shape.vocab,
        )
    else:
        rows = shape.batch if shape.trainer == "trees" else shape.batch * BATCHES
        x = rng.standard_normal((rows, shape.inputs), dtype=np.float32)
        names = tuple(f"x{number}" for number in range(shape.inputs))
        data = TabularData(
            x=x,
            y=rng.integers(0, 2, rows),
            names=names,
            problem="classification",
            classes=("0", "1"),
        )
    summary = fit_data(_spec(shape, MOST_STEPS), data, watch=_enough(_lap(shape))).summary
    return Probe(
        trainer=shape.trainer,
        label=shape.label,
        work=_work(shape),
        step_s=summary.step_s,
        memory_bytes=summary.memory_bytes,
    )


def _enough(lap: int) -> Callable[[StepMetrics], bool]:
    """Decide when enough steps after the first, which compiles, have been timed."""
    seen: list[float] = []

    def watch(metrics: StepMetrics) -> bool:
        """Record a time; return True to end the training run."""
        seen.append((metrics.step_s or 0.0) * lap if seen else 0.0)
        return len(seen) > LEAST_LAPS and sum(seen) > TIMED_S

    return watch


def _work(shape: ProbeShape) -> LocalStepWork:
    if shape.vocab:
        return transformer_step_work(shape.transformer, shape.batch, shape.inputs)
    if shape.trainer == "trees":
        return trees_step_work(shape.batch, shape.inputs, shape.width)
    return mlp_step_work((shape.inputs, *(shape.width,) * shape.layers, 2), shape.batch)


def _lap(shape: ProbeShape) -> int:
    return 1 if _work(shape).flop > LONG_FLOP else LAP


def _spec(shape: ProbeShape, steps: int) -> TrainSpec:
    lap, batch = _lap(shape), shape.batch
    if shape.trainer == "trees":
        return TrainSpec(
            log_every=lap, trees=TreesSpec(rounds=min(steps, MOST_ROUNDS), leaves=shape.width)
        )
    if shape.trainer == "jax_mlp":
        return TrainSpec(
            log_every=lap,
            jax_mlp=MlpSpec(hidden=shape.width, layers=shape.layers, batch=batch, steps=steps),
        )
    if shape.trainer == "torch_mlp":
        torch_mlp = TorchMlpSpec(hidden=shape.width, layers=shape.layers, batch=batch, steps=steps)
        return TrainSpec(log_every=lap, torch_mlp=torch_mlp)
    if shape.trainer == "jax_transformer":
        return TrainSpec(
            log_every=lap,
            jax_transformer=TransformerSpec(shape=shape.transformer, batch=batch, steps=steps),
        )
    return TrainSpec(
        log_every=lap,
        torch_transformer=TorchTransformerSpec(shape=shape.transformer, batch=batch, steps=steps),
    )


def probes_of(
    trainer: str,
    shapes: Sequence[ProbeShape] | None = None,
    sweeps: int = SWEEPS,
    on_progress: ProgressCallback = silent,
) -> tuple[Probe, ...]:
    """Run the probes of a trainer in another process; default: the usual shapes."""
    request = _Shapes(
        shapes=tuple(shapes if shapes is not None else shapes_of(trainer)), sweeps=sweeps
    )
    with tempfile.TemporaryDirectory(prefix="gpuyard-probes-") as folder:
        out, log = Path(folder) / "probes.json", Path(folder) / "log"
        code = _tried(request, trainer, out, log, on_progress)
        if code != 0 or not out.exists():
            message = (
                log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                or ["it exited at once"]
            )[-1]
            raise ExternalError(
                f"probes of {trainer}", message, "pip install 'gpuyard[run,jax,torch]'"
            )
        return load_json_file(out, _Probes).probes


def _tried(
    request: _Shapes, trainer: str, out: Path, log: Path, on_progress: ProgressCallback
) -> int:
    """Run the probe process, which prints a line per training run; return its exit code."""
    total, done = len(request.shapes) * request.sweeps, 0
    given = out.with_name("shapes.json")
    given.write_text(dump_json(request), encoding="utf-8")
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(out.parent),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    with given.open("rb") as shapes, log.open("wb") as noise:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuyard.app.training_probes", str(out)],
            stdin=shapes,
            stdout=subprocess.PIPE,
            stderr=noise,
            text=True,
            env={**os.environ, **cache},
        )
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            on_progress(f"short training runs of {trainer}", done, total)
            for line in process.stdout:
                done += line == TRIED
                on_progress(f"short training runs of {trainer}", done, total)
            code = process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.communicate()
    if code == -signal.SIGKILL:
        what = f"were killed after {LIMIT_S:g} s, or for lack of memory"
        raise ExternalError(f"probes of {trainer}", what, "stop other programs, or add --quick")
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """Input of the probe process."""

    shapes: tuple[ProbeShape, ...]
    sweeps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probes:
    probes: tuple[Probe, ...]


def main(words: list[str]) -> None:
    """Run every shape, smallest first, twice.

    Peak memory of a process only grows, hence the order. Other load only slows a run down,
    so the faster sweep counts.
    """
    request = load_json(sys.stdin.read(), _Shapes, "shapes")
    shapes = sorted(request.shapes, key=lambda shape: plain_bytes(_work(shape)))
    first = [_reported(probe(shape)) for shape in shapes]
    times_s = [[item.step_s for item in first]]
    for _ in range(request.sweeps - 1):
        times_s.append([_reported(probe(shape)).step_s for shape in shapes])
    probes = tuple(
        replace(item, step_s=min(times))
        for item, times in zip(first, zip(*times_s, strict=True), strict=True)
    )
    write_atomic(Path(words[0]), dump_json(_Probes(probes=probes)))


def _reported(done: Probe) -> Probe:
    sys.stdout.write(TRIED)
    sys.stdout.flush()
    return done


if __name__ == "__main__":
    main(sys.argv[1:])
