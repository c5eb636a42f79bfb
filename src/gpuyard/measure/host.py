"""The host: processor, cores, memory, and versions of Python and the frameworks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("numpy", "torch", "jax", "jaxlib", "lightgbm", "onnxruntime")


def processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    name = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
    )
    return name or platform.processor() or platform.machine()


def cores_count() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> float:
    """Return the size of main memory."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of Python and of the installed frameworks."""
    installed = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            installed.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(installed)
