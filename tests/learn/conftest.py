"""Small datasets that every trainer can learn, and skips for missing packages."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

import numpy as np
import pytest

from gpuyard.learn.trainer import TabularData, TokenData

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Skip a test whose package is missing, unless GPUYARD_REQUIRE_ALL is set."""

    def check(package: str) -> None:
        if (
            importlib.util.find_spec(package) is None
            and os.environ.get("GPUYARD_REQUIRE_ALL") != "1"
        ):
            pytest.skip(f"{package} is not installed")

    return check


def _rows(count: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, len(NAMES))).astype(np.float32)
    return x, x[:, 0] + x[:, 1] * x[:, 2] + 0.1 * generator.normal(size=count)


@pytest.fixture(scope="session")
def binary() -> TabularData:
    """Two classes."""
    x, value = _rows()
    return TabularData(
        x=x,
        y=(value > 0).astype(np.int64),
        names=NAMES,
        problem="classification",
        classes=("no", "yes"),
    )


@pytest.fixture(scope="session")
def three() -> TabularData:
    """Three classes."""
    x, value = _rows()
    y = np.digitize(value, [-0.5, 0.5]).astype(np.int64)
    return TabularData(
        x=x, y=y, names=NAMES, problem="classification", classes=("low", "middle", "high")
    )


@pytest.fixture(scope="session")
def numbers() -> TabularData:
    """Values far from zero, so that a trainer that forgets its scale fails."""
    x, value = _rows()
    return TabularData(x=x, y=1000.0 + 50.0 * value, names=NAMES, problem="regression")


@pytest.fixture(scope="session")
def tokens() -> TokenData:
    """Sequences in which every second token repeats the previous one."""
    ids = np.random.default_rng(0).integers(0, 16, size=(24, 17)).astype(np.uint16)
    ids[:, 1::2] = ids[:, 0:-1:2]
    return TokenData(ids=ids, vocab=16)
