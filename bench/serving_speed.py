"""Speed of the serving simulator and of the closed form: `python bench/serving_speed.py`.

Vidur simulates 100 to 250 requests a CPU second on a machine of this kind (Llama-3-8B on one A100, conversation
lengths, Poisson arrivals): 9.8 s CPU for 1,000 requests and 20.1 s for 5,000, its operator models already fitted.
"""

from __future__ import annotations

import time

import numpy as np

from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.chip import chip_named
from gpuyard.perf.inference.closed_form import steady_state
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import kv_cache_capacity, limits
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.serving_engine import find_engine
from gpuyard.perf.inference.shape import shape_of
from gpuyard.simulate.serving.load import Requests, at_rate, lognormal, uniform
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, simulate

VIDUR_PER_S = 250.0  # its better figure
CONFIGURATIONS = 2_000_000


def pool(replicas: int) -> ReplicaPool:
    """Llama 3.1 8B on A100s."""
    catalog = load_catalog()
    model = next(item for item in catalog.models if item.name == "llama-3.1-8b").transformer
    chip = chip_named("a100-80gb", catalog)
    assert model is not None
    assert chip is not None
    engine = find_engine("vllm-v1")
    parts = (shape_of(model), chip, Precision(), ReplicaLayout(), engine, read_calibration())
    held = kv_cache_capacity(*parts)
    return ReplicaPool(
        row=costs_row(*parts),
        kv_cache=held,
        limits=limits(engine, held, 1000, 200),
        engine=engine,
        replicas=replicas,
    )


def timed(name: str, load: Requests, replicas: int, users: int = 0) -> None:
    """One run, CPU time."""
    own = pool(replicas)
    start = time.process_time()
    found = simulate(load, own, users=users, router="round-robin" if users else "least-outstanding")
    spent = time.process_time() - start
    assert isinstance(found, ServingOutcome)
    steps, rate = int(found.timeline.steps.sum()), load.count / spent
    print(
        f"{name:44s} {load.count:8,d} requests {steps:10,d} steps {spent:6.2f} s CPU"
        f" {rate:10,.0f} requests/s  {rate / VIDUR_PER_S:6.0f} x"
    )


def main() -> None:
    """Prints the table."""
    rng = np.random.default_rng(0)
    simulate(at_rate(lognormal(50, 500, 100, (1.0, 1.0), rng), 5.0, rng), pool(2))  # compiles
    conversation = lognormal(100_000, 1020, 210, (1.1, 0.9), rng)
    timed("one replica, 6 requests/s", at_rate(conversation, 6.0, rng), 1)
    timed("eight replicas, 48 requests/s, least busy", at_rate(conversation, 48.0, rng), 8)
    timed("closed loop, 64 users", uniform(100_000, 1024, 1024, 0.8, rng), 1, 64)
    own = pool(1)
    lengths = [
        rng.integers(low, high, CONFIGURATIONS).astype(np.float64)
        for low, high in ((1, 512), (64, 8192), (16, 2048))
    ]
    which, max_sequences = np.zeros(CONFIGURATIONS, dtype=np.int64), np.full(CONFIGURATIONS, 400.0)
    steady_state(
        own.row[None], which[:1], lengths[0][:1], max_sequences[:1], lengths[1][:1], lengths[2][:1]
    )
    start = time.process_time()
    steady_state(own.row[None], which, lengths[0], max_sequences, lengths[1], lengths[2])
    spent = time.process_time() - start
    print(
        f"{'closed form':44s} {CONFIGURATIONS:8,d} configurations {spent:6.2f} s CPU"
        f" {CONFIGURATIONS / spent:12,.0f} configurations/s"
    )


if __name__ == "__main__":
    main()
