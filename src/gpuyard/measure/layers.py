"""GEMM and attention shapes of a training step, timed in the framework that trains.

Linear layers and attention over a grid of shapes, and memory bandwidth from cache-sized footprints
up, on the device that training runs on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpuyard.measure.compute import has
from gpuyard.measure.progress import ProgressCallback, silent
from gpuyard.measure.timing import TimedResult, timed
from gpuyard.perf.local.profile import GemmTiming, Rate
from gpuyard.perf.local.step_work import GemmKind, StepGemm

Shape = tuple[int, int, int]
Calls = tuple[Callable[[], object], int]  # the timed call, and how often it repeats the work
# Linear layers.
ROWS = (16, 64, 256, 1024)
INPUTS = (16, 64, 256, 1024)
OUTPUTS = (2, 16, 64, 256, 1024)
# Attention.
TOKENS = (16, 64, 256)
WIDTHS = (16, 64)
HEADS = (4, 16, 64)
SEQUENCE_TOKENS = 16
FOOTPRINTS_BYTES = tuple(4**power * 65536 for power in range(7))  # from L1 to beyond the last cache
BUDGET_S = 0.03
SWEEPS = 3  # over all shapes: other load only slows a call down, so the fastest sweep counts
ROUND_FLOP = 2e8  # work inside one compiled call, so that the call overhead is negligible
MAX_ROUNDS = 64
PASSES = 3  # two arrays are read, one is written
SEED = 7


def kinds_of(by: str, *, transformer: bool = True) -> tuple[GemmKind, ...]:
    """Return the kinds of GEMM timed for a framework; PyTorch flattens tokens into rows."""
    tokens: tuple[GemmKind, ...] = (
        ("attention",) if by == "torch" else ("token-weight", "attention")
    )
    return ("forward", "input", "weight", *(tokens if transformer else ()))


def layer_timings(
    trainers: Sequence[str], on_progress: ProgressCallback = silent, *, quick: bool = False
) -> Iterator[GemmTiming]:
    """Yield timings of the trainers' GEMMs over a grid of shapes, per installed framework."""
    for by, make in (("torch", _torch), ("jax", _jax)):
        used = [trainer for trainer in trainers if trainer.startswith(by)]
        if not used or not has(by):
            continue
        gemms = [
            StepGemm(kind=kind, rows=rows, inputs=inputs, outputs=outputs)
            for kind in kinds_of(
                by, transformer=any(trainer.endswith("transformer") for trainer in used)
            )
            for axes in (
                (TOKENS, WIDTHS, HEADS) if kind == "attention" else (ROWS, INPUTS, OUTPUTS),
            )
            for rows, inputs, outputs in itertools.product(
                *(_every_other(axis) if quick else axis for axis in axes)
            )
        ]
        calls = [make(gemm) for gemm in gemms]
        sweeps: list[list[TimedResult]] = [[] for _ in range(SWEEPS)]
        for number, (sweep, (call, _)) in enumerate(itertools.product(sweeps, calls)):
            on_progress(f"matmul with {by}", number, SWEEPS * len(calls))
            sweep.append(timed(call, BUDGET_S / SWEEPS))
        on_progress(f"matmul with {by}", SWEEPS * len(calls), SWEEPS * len(calls))
        for gemm, (_, rounds), times in zip(gemms, calls, zip(*sweeps, strict=True), strict=True):
            fastest = min(times, key=lambda timing: timing.median_s)
            yield GemmTiming(
                kind=gemm.kind,
                by=by,
                rows=gemm.rows,
                inputs=gemm.inputs,
                outputs=gemm.outputs,
                time_s=fastest.median_s / rounds,
                spread_ratio=fastest.spread_ratio,
            )


def _every_other(axis: tuple[int, ...]) -> tuple[int, ...]:
    # Counted from the last, so that the largest size is always timed.
    return axis[::-2][::-1]


def cache_rates(
    frameworks: Sequence[str], on_progress: ProgressCallback = silent
) -> Iterator[Rate]:
    """Yield the bandwidth of adding one array to another, from cache-sized footprints up."""
    for by, make in (("torch", _torch_sum), ("jax", _jax_sum)):
        if by in frameworks and has(by):
            on_progress(f"memory bandwidth with {by}")
            for size_bytes in FOOTPRINTS_BYTES:
                call, rounds = make(size_bytes)
                fastest = min(
                    (timed(call, BUDGET_S) for _ in range(SWEEPS)),
                    key=lambda timing: timing.median_s,
                )
                yield Rate(
                    kind="memory",
                    by=by,
                    size=float(size_bytes),
                    value=PASSES / 2 * size_bytes * rounds / fastest.median_s,
                    spread_ratio=fastest.spread_ratio,
                )


def _torch(gemm: StepGemm) -> Calls:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, inputs, outputs = gemm.rows, gemm.inputs, gemm.outputs

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    if gemm.kind == "attention":
        size = (1, outputs, rows, inputs)
        q, k, v = (torch.rand(size, device=device, requires_grad=True) for _ in "qkv")
        back = torch.rand(size, device=device)

        def attend() -> None:
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            torch.autograd.grad(seen, (q, k, v), back)
            wait()

        return attend, 1
    x, w = torch.rand(rows, inputs, device=device), torch.rand(outputs, inputs, device=device)
    g = torch.rand(rows, outputs, device=device)
    left, right = {"forward": (x, w.t()), "input": (g, w)}.get(gemm.kind, (g.t(), x))

    def multiply() -> None:
        torch.mm(left, right)
        wait()

    return multiply, 1


def _jax(gemm: StepGemm) -> Calls:
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(SEED)
    rows, inputs, outputs = gemm.rows, gemm.inputs, gemm.outputs

    def drawn(*size: int) -> jax.Array:
        return jnp.asarray(rng.random(size, dtype=np.float32))

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, back: jax.Array) -> tuple[jax.Array, ...]:
        _, gradients = jax.vjp(
            lambda *qkv: jax.nn.dot_product_attention(*qkv, is_causal=True), q, k, v
        )
        result: tuple[jax.Array, ...] = gradients(back)
        return result

    cut = rows // SEQUENCE_TOKENS, SEQUENCE_TOKENS
    work: Callable[..., tuple[jax.Array, ...]]
    if gemm.kind == "attention":
        work, arguments = attend, tuple(drawn(1, rows, outputs, inputs) for _ in range(4))
    elif gemm.kind == "forward":
        work, arguments = lambda x, w: (x @ w.T,), (drawn(rows, inputs), drawn(outputs, inputs))
    elif gemm.kind == "input":
        work, arguments = lambda g, w: (g @ w,), (drawn(rows, outputs), drawn(outputs, inputs))
    elif gemm.kind == "weight":
        work, arguments = lambda g, x: (g.T @ x,), (drawn(rows, outputs), drawn(rows, inputs))
    else:
        work, arguments = (
            lambda g, x: (jnp.einsum("bto,bti->oi", g, x),),
            (drawn(*cut, outputs), drawn(*cut, inputs)),
        )

    # Several rounds in one compiled loop. Each round writes a number of its output into the input
    # of the next; otherwise XLA would hoist the loop-invariant GEMM and compute it once.
    def many(rounds: jax.Array, *arguments: jax.Array) -> jax.Array:
        def once(_: jax.Array, first: jax.Array) -> jax.Array:
            outputs = lax.optimization_barrier(work(first, *arguments[1:]))
            corner = sum(output.ravel()[:1].sum() for output in outputs) * 1e-30
            changed: jax.Array = lax.dynamic_update_slice(
                first, jnp.full((1,) * first.ndim, corner), (0,) * first.ndim
            )
            return changed

        result: jax.Array = lax.fori_loop(0, rounds, once, arguments[0])
        return result

    rounds = int(min(MAX_ROUNDS, max(1, ROUND_FLOP / gemm.flop)))
    compiled = jax.jit(many)
    return lambda: compiled(np.int32(rounds), *arguments).block_until_ready(), rounds


def _torch_sum(size_bytes: int) -> Calls:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.ones(size_bytes // 8, device=device) for _ in "ab")

    def add() -> None:
        a.add_(b, alpha=1e-9)
        if device == "cuda":
            torch.cuda.synchronize()

    return add, 1


def _jax_sum(size_bytes: int) -> Calls:
    import jax
    import jax.numpy as jnp
    from jax import lax

    arrays = [jnp.ones(size_bytes // 8), jnp.ones(size_bytes // 8)]

    def summed(a: jax.Array, b: jax.Array, rounds: jax.Array) -> jax.Array:
        result: jax.Array = lax.fori_loop(0, rounds, lambda _, a: a * 0.999 + b, a)
        return result

    many = jax.jit(summed, donate_argnums=0)
    rounds = max(2, int(FOOTPRINTS_BYTES[3] / size_bytes))

    def add() -> None:
        # The first argument is donated, so the result replaces it.
        arrays[0] = many(arrays[0], arrays[1], np.int32(rounds)).block_until_ready()

    return add, rounds
