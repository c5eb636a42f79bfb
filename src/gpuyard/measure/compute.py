"""GEMM throughput and memory bandwidth of this host, measured with NumPy, PyTorch and JAX."""

from __future__ import annotations

import functools
import importlib.util
import typing
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gpuyard.measure.progress import ProgressCallback, silent
from gpuyard.measure.timing import timed
from gpuyard.perf.local.profile import Rate

SIDES = (64, 256, 1024, 2048)
ACCELERATOR_SIDES = (1024, 2048, 4096, 8192)
# From a size that fits in cache to one larger than all caches.
MEMORY_BYTES = (1 << 20, 1 << 23, 1 << 26, 1 << 28)
SEED = 7


def has(name: str) -> bool:
    """Return whether a package is installed."""
    return importlib.util.find_spec(name) is not None


def accelerators() -> tuple[str, ...]:
    """Return the CUDA devices that PyTorch sees and the non-CPU devices that JAX sees."""
    names: list[str] = []
    if has("torch"):
        import torch

        names += [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if has("jax"):
        import jax

        names += [
            str(device.device_kind)
            for device in jax.devices()
            if device.platform not in ("cpu", "gpu")
        ]
    return tuple(names)


def gemm_rates(
    frameworks: Sequence[str] = ("numpy", "torch", "jax"), on_progress: ProgressCallback = silent
) -> Iterator[Rate]:
    """Yield the throughput of square GEMMs per installed framework, device and dtype."""
    for name, rates in (("numpy", _numpy), ("torch", _torch), ("jax", _jax)):
        if name in frameworks and has(name):
            on_progress(f"matmul with {name}")
            yield from rates()


def _numpy() -> Iterator[Rate]:
    # No half precision: NumPy's BLAS has no kernels for it.
    rng = np.random.default_rng(SEED)
    for dtype in ("float32", "float64"):
        for side in SIDES:
            a, b = rng.random((side, side)).astype(dtype), rng.random((side, side)).astype(dtype)
            yield _rate("numpy", "cpu", dtype, side, functools.partial(np.matmul, a, b))


def _torch() -> Iterator[Rate]:
    import torch

    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        for name in ("float32", "bfloat16", *(["float16"] if device == "cuda" else [])):
            for side in SIDES if device == "cpu" else ACCELERATOR_SIDES:
                a, b = (
                    torch.rand(side, side, device=device).to(getattr(torch, name)) for _ in "ab"
                )

                def matmul(a: object = a, b: object = b, on: str = device) -> None:
                    torch.mm(a, b)
                    if on == "cuda":
                        torch.cuda.synchronize()

                yield _rate("torch", device, name, side, matmul)


def _jax() -> Iterator[Rate]:
    import jax
    import jax.numpy as jnp

    platform = jax.devices()[0].platform
    multiply = jax.jit(lambda a, b: a @ b)
    for name in ("float32", "bfloat16"):
        for side in SIDES if platform == "cpu" else ACCELERATOR_SIDES:
            a = jax.random.uniform(jax.random.key(SEED), (side, side)).astype(getattr(jnp, name))

            def matmul(a: typing.Any = a) -> None:
                multiply(a, a).block_until_ready()

            yield _rate("jax", platform, name, side, matmul)


def _rate(by: str, device: str, dtype: str, side: int, call: Callable[[], object]) -> Rate:
    timing = timed(call, 0.15)
    return Rate(
        kind="product",
        by=by,
        device=device,
        dtype=dtype,
        size=float(side),
        value=2.0 * side**3 / timing.median_s,
        spread_ratio=timing.spread_ratio,
    )


def memory_rates() -> Iterator[Rate]:
    """Yield the bandwidth of a NumPy copy, counting bytes read and bytes written."""
    for size_bytes in MEMORY_BYTES:
        source = np.ones(size_bytes // 16)
        target = np.empty_like(source)
        timing = timed(functools.partial(np.copyto, target, source), 0.2)
        yield Rate(
            kind="memory",
            by="numpy",
            size=float(size_bytes),
            value=size_bytes / timing.median_s,
            spread_ratio=timing.spread_ratio,
        )
