"""Matrix products and memory of this machine, by NumPy, PyTorch and JAX, on every device that they see."""

from __future__ import annotations

import functools
import importlib.util
import typing
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpuyard.measure.progress import Tell, silent
from gpuyard.measure.timing import timed
from gpuyard.perf.local import Rate

__all__ = ["accelerators", "memory_rates", "product_rates"]

SIDES = (64, 256, 1024, 2048)
FAST_SIDES = (1024, 2048, 4096, 8192)  # of an accelerator
MEMORY_BYTES = (1 << 20, 1 << 23, 1 << 26, 1 << 28)  # from what a cache holds to more than they all do
SEED = 7


def has(name: str) -> bool:
    """True when a package is installed."""
    return importlib.util.find_spec(name) is not None


def accelerators() -> tuple[str, ...]:
    """CUDA devices that PyTorch sees, and devices other than CPUs that JAX sees."""
    found: list[str] = []
    if has("torch"):
        import torch

        found += [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if has("jax"):
        import jax

        found += [str(device.device_kind) for device in jax.devices() if device.platform not in ("cpu", "gpu")]
    return tuple(found)


def product_rates(frameworks: Sequence[str] = ("numpy", "torch", "jax"), told: Tell = silent) -> Iterator[Rate]:
    """Square products of growing size, by framework, device and type; of frameworks that are installed."""
    for name, rates in (("numpy", _numpy), ("torch", _torch), ("jax", _jax)):
        if name in frameworks and has(name):
            told(f"products by {name}")
            yield from rates()


def _numpy() -> Iterator[Rate]:
    """NumPy's own BLAS; half precision has no kernels there."""
    rng = np.random.default_rng(SEED)
    for dtype in ("float32", "float64"):
        for side in SIDES:
            a, b = rng.random((side, side)).astype(dtype), rng.random((side, side)).astype(dtype)
            yield _rate("numpy", "cpu", dtype, side, functools.partial(np.matmul, a, b))


def _torch() -> Iterator[Rate]:
    """PyTorch on the CPU, and on CUDA when present."""
    import torch

    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        for name in ("float32", "bfloat16", *(["float16"] if device == "cuda" else [])):
            for side in SIDES if device == "cpu" else FAST_SIDES:
                a, b = (torch.rand(side, side, device=device).to(getattr(torch, name)) for _ in "ab")

                def product(a: object = a, b: object = b, on: str = device) -> None:
                    """One product, waited for."""
                    torch.mm(a, b)
                    if on == "cuda":
                        torch.cuda.synchronize()

                yield _rate("torch", device, name, side, product)


def _jax() -> Iterator[Rate]:
    """JAX on its default device."""
    import jax
    import jax.numpy as jnp

    platform = jax.devices()[0].platform
    multiply = jax.jit(lambda a, b: a @ b)
    for name in ("float32", "bfloat16"):
        for side in SIDES if platform == "cpu" else FAST_SIDES:
            a = jax.random.uniform(jax.random.key(SEED), (side, side)).astype(getattr(jnp, name))

            def product(a: typing.Any = a) -> None:
                """One product, waited for."""
                multiply(a, a).block_until_ready()

            yield _rate("jax", platform, name, side, product)


def _rate(by: str, device: str, dtype: str, side: int, call: Callable[[], object]) -> Rate:
    """The rate of a product."""
    found = timed(call, 0.15)
    return Rate(
        kind="product", by=by, device=device, dtype=dtype, size=float(side), value=2.0 * side**3 / found.median_s,
        spread_ratio=found.spread_ratio,
    )  # fmt: skip


def memory_rates() -> Iterator[Rate]:
    """A copy by NumPy: what is read and what is written, together."""
    for size_bytes in MEMORY_BYTES:
        source = np.ones(size_bytes // 16)
        target = np.empty_like(source)
        found = timed(functools.partial(np.copyto, target, source), 0.2)
        yield Rate(
            kind="memory", by="numpy", size=float(size_bytes), value=size_bytes / found.median_s,
            spread_ratio=found.spread_ratio,
        )  # fmt: skip
