"""The products of a training step by the framework that trains: linear layers and attention of many shapes, and memory
that is used again and again, each on the device that trainings run on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpuyard.measure.compute import has
from gpuyard.measure.progress import Tell, silent
from gpuyard.measure.timing import Timed, timed
from gpuyard.perf.local import Product, ProductKind, Rate, Timing

__all__ = ["cache_rates", "kinds_of", "layer_timings"]

Shape = tuple[int, int, int]
Calls = tuple[Callable[[], object], int]  # what is timed, and how often it does the work
ROWS, INPUTS, OUTPUTS = (16, 64, 256, 1024), (16, 64, 256, 1024), (2, 16, 64, 256, 1024)  # of linear layers
TOKENS, WIDTHS, HEADS = (16, 64, 256), (16, 64), (4, 16, 64)  # of attention
SEQUENCE_TOKENS = 16
FOOTPRINTS_BYTES = tuple(4**power * 65536 for power in range(7))  # from a first cache to beyond the last
BUDGET_S = 0.03
SWEEPS = 3  # over all shapes: what else a machine does only makes it slower, so the fastest counts
ROUND_FLOP = 2e8  # products inside one call of a compiled function, so that the call itself does not count
MOST_ROUNDS = 64
PASSES = 3  # two arrays are read, one is written
SEED = 7


def kinds_of(by: str, *, transformer: bool = True) -> tuple[ProductKind, ...]:
    """What is timed of a framework; PyTorch takes the tokens of sequences as rows."""
    tokens: tuple[ProductKind, ...] = ("attention",) if by == "torch" else ("token-weight", "attention")
    return ("forward", "input", "weight", *(tokens if transformer else ()))


def layer_timings(trainers: Sequence[str], told: Tell = silent, *, quick: bool = False) -> Iterator[Timing]:
    """The kinds of product that the trainers use, over a grid of shapes, by the frameworks that are installed."""
    for by, make in (("torch", _torch), ("jax", _jax)):
        used = [trainer for trainer in trainers if trainer.startswith(by)]
        if not used or not has(by):
            continue
        products = [
            Product(kind=kind, rows=rows, inputs=inputs, outputs=outputs)
            for kind in kinds_of(by, transformer=any(trainer.endswith("transformer") for trainer in used))
            for axes in ((TOKENS, WIDTHS, HEADS) if kind == "attention" else (ROWS, INPUTS, OUTPUTS),)
            for rows, inputs, outputs in itertools.product(*(_fewer(axis) if quick else axis for axis in axes))
        ]
        calls = [make(product) for product in products]
        sweeps: list[list[Timed]] = [[] for _ in range(SWEEPS)]
        for number, (sweep, (call, _)) in enumerate(itertools.product(sweeps, calls)):
            told(f"products by {by}", number, SWEEPS * len(calls))
            sweep.append(timed(call, BUDGET_S / SWEEPS))
        told(f"products by {by}", SWEEPS * len(calls), SWEEPS * len(calls))
        for product, (_, rounds), times in zip(products, calls, zip(*sweeps, strict=True), strict=True):
            found = min(times, key=lambda each: each.median_s)
            yield Timing(
                kind=product.kind, by=by, rows=product.rows, inputs=product.inputs, outputs=product.outputs,
                time_s=found.median_s / rounds, spread_ratio=found.spread_ratio,
            )  # fmt: skip


def _fewer(axis: tuple[int, ...]) -> tuple[int, ...]:
    """Every other place of an axis, from the last."""
    return axis[::-2][::-1]


def cache_rates(frameworks: Sequence[str], told: Tell = silent) -> Iterator[Rate]:
    """What a sum of two arrays into one of them moves in a second, from sizes that a cache holds to beyond them all."""
    for by, make in (("torch", _torch_sum), ("jax", _jax_sum)):
        if by in frameworks and has(by):
            told(f"memory by {by}")
            for size_bytes in FOOTPRINTS_BYTES:
                call, rounds = make(size_bytes)
                found = min((timed(call, BUDGET_S) for _ in range(SWEEPS)), key=lambda each: each.median_s)
                yield Rate(
                    kind="memory", by=by, size=float(size_bytes),
                    value=PASSES / 2 * size_bytes * rounds / found.median_s, spread_ratio=found.spread_ratio,
                )  # fmt: skip


def _torch(product: Product) -> Calls:
    """A product by PyTorch as its autograd does it; the same for tokens, which it takes as rows."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, inputs, outputs = product.rows, product.inputs, product.outputs

    def wait() -> None:
        """Until it is done."""
        if device == "cuda":
            torch.cuda.synchronize()

    if product.kind == "attention":
        size = (1, outputs, rows, inputs)
        q, k, v = (torch.rand(size, device=device, requires_grad=True) for _ in "qkv")
        back = torch.rand(size, device=device)

        def attend() -> None:
            """Forward and backward."""
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            torch.autograd.grad(seen, (q, k, v), back)
            wait()

        return attend, 1
    x, w = torch.rand(rows, inputs, device=device), torch.rand(outputs, inputs, device=device)
    g = torch.rand(rows, outputs, device=device)
    left, right = {"forward": (x, w.t()), "input": (g, w)}.get(product.kind, (g.t(), x))

    def multiply() -> None:
        """One product."""
        torch.mm(left, right)
        wait()

    return multiply, 1


def _jax(product: Product) -> Calls:
    """A product by JAX, several in one compiled loop in which each needs the one before."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(SEED)
    rows, inputs, outputs = product.rows, product.inputs, product.outputs

    def drawn(*size: int) -> jax.Array:
        """Numbers of a size."""
        return jnp.asarray(rng.random(size, dtype=np.float32))

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, back: jax.Array) -> tuple[jax.Array, ...]:
        """Forward and backward."""
        _, gradients = jax.vjp(lambda *qkv: jax.nn.dot_product_attention(*qkv, is_causal=True), q, k, v)
        found: tuple[jax.Array, ...] = gradients(back)
        return found

    cut = rows // SEQUENCE_TOKENS, SEQUENCE_TOKENS
    does: Callable[..., tuple[jax.Array, ...]]
    if product.kind == "attention":
        does, taken = attend, tuple(drawn(1, rows, outputs, inputs) for _ in range(4))
    elif product.kind == "forward":
        does, taken = lambda x, w: (x @ w.T,), (drawn(rows, inputs), drawn(outputs, inputs))
    elif product.kind == "input":
        does, taken = lambda g, w: (g @ w,), (drawn(rows, outputs), drawn(outputs, inputs))
    elif product.kind == "weight":
        does, taken = lambda g, x: (g.T @ x,), (drawn(rows, outputs), drawn(rows, inputs))
    else:
        does, taken = lambda g, x: (jnp.einsum("bto,bti->oi", g, x),), (drawn(*cut, outputs), drawn(*cut, inputs))

    def many(rounds: jax.Array, *given: jax.Array) -> jax.Array:
        """So many rounds."""

        def once(_: jax.Array, first: jax.Array) -> jax.Array:
            """One round; a number of what it gives goes into what the next one takes."""
            gives = lax.optimization_barrier(does(first, *given[1:]))
            corner = sum(one.ravel()[:1].sum() for one in gives) * 1e-30
            changed: jax.Array = lax.dynamic_update_slice(first, jnp.full((1,) * first.ndim, corner), (0,) * first.ndim)
            return changed

        found: jax.Array = lax.fori_loop(0, rounds, once, given[0])
        return found

    rounds = int(min(MOST_ROUNDS, max(1, ROUND_FLOP / product.flop)))
    compiled = jax.jit(many)
    return lambda: compiled(np.int32(rounds), *taken).block_until_ready(), rounds


def _torch_sum(size_bytes: int) -> Calls:
    """A sum of two arrays by PyTorch."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.ones(size_bytes // 8, device=device) for _ in "ab")

    def add() -> None:
        """One sum."""
        a.add_(b, alpha=1e-9)
        if device == "cuda":
            torch.cuda.synchronize()

    return add, 1


def _jax_sum(size_bytes: int) -> Calls:
    """Sums of two arrays by JAX, in place, in one compiled loop."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    kept = [jnp.ones(size_bytes // 8), jnp.ones(size_bytes // 8)]

    def summed(a: jax.Array, b: jax.Array, rounds: jax.Array) -> jax.Array:
        """So many rounds."""
        found: jax.Array = lax.fori_loop(0, rounds, lambda _, a: a * 0.999 + b, a)
        return found

    many = jax.jit(summed, donate_argnums=0)
    rounds = max(2, int(FOOTPRINTS_BYTES[3] / size_bytes))

    def add() -> None:
        """The rounds of one call; what it takes is given up to what it gives."""
        kept[0] = many(kept[0], kept[1], np.int32(rounds)).block_until_ready()

    return add, rounds
