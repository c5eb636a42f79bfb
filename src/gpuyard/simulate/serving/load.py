"""Serving load: prompt and output lengths and arrival times from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """Requests in order of arrival; `cached_tokens` of each prompt hit the prefix cache."""

    arrived_s: Reals
    prompt_tokens: Ints
    output_tokens: Ints
    cached_tokens: Ints

    @property
    def count(self) -> int:
        return len(self.arrived_s)


def _requests(
    prompt: npt.NDArray[np.float64], output: npt.NDArray[np.float64], hit_ratio: float
) -> Requests:
    """Return requests that all arrive at the start."""
    prompts = np.maximum(np.rint(prompt), 1).astype(np.int64)
    return Requests(
        arrived_s=np.zeros(len(prompts)),
        prompt_tokens=prompts,
        output_tokens=np.maximum(np.rint(output), 1).astype(np.int64),
        cached_tokens=(prompts * hit_ratio).astype(np.int64),
    )


def fixed(
    count: int, prompt_tokens: float, output_tokens: float, hit_ratio: float = 0.0
) -> Requests:
    """Return requests of one length that all arrive at the start."""
    return _requests(
        np.full(count, float(prompt_tokens)), np.full(count, float(output_tokens)), hit_ratio
    )


def drifted(requests: Requests, max_tokens: int, rng: np.random.Generator) -> Requests:
    """Shorten outputs by up to `max_tokens`, so that equal requests finish at different steps."""
    drift = rng.integers(0, max_tokens + 1, requests.count)
    return replace(requests, output_tokens=np.maximum(requests.output_tokens - drift, 1))


def uniform(
    count: int,
    prompt_tokens: float,
    output_tokens: float,
    low_ratio: float,
    rng: np.random.Generator,
    hit_ratio: float = 0.0,
) -> Requests:
    """Draw lengths uniformly in [low_ratio × length, length]."""
    share = rng.uniform(low_ratio, 1.0, (2, count))
    return _requests(prompt_tokens * share[0], output_tokens * share[1], hit_ratio)


def lognormal(
    count: int,
    prompt_tokens: float,
    output_tokens: float,
    variation: tuple[float, float],
    rng: np.random.Generator,
    most_tokens: tuple[float, float] = (np.inf, np.inf),
    hit_ratio: float = 0.0,
) -> Requests:
    """Draw lognormal lengths with these means and variations, cut at `most_tokens` and rescaled."""
    drawn = []
    for mean, spread, most in zip(
        (prompt_tokens, output_tokens), variation, most_tokens, strict=True
    ):
        sigma = np.sqrt(np.log1p(spread**2))
        values = (
            np.exp(rng.normal(0.0, sigma, count) - sigma**2 / 2.0) if sigma > 0 else np.ones(count)
        )
        scale = 1.0
        for _ in range(20):  # the cut lowers the mean: rescale until it is restored
            cut = np.minimum(values * mean * scale, most)
            scale *= mean / cut.mean()
        drawn.append(np.minimum(values * mean * scale, most))
    return _requests(drawn[0], drawn[1], hit_ratio)


def at_rate(
    requests: Requests, per_s: float, rng: np.random.Generator, burstiness: float = 1.0
) -> Requests:
    """Return the requests at a mean rate with gamma gaps: 1 is Poisson, smaller is burstier."""
    gaps = rng.gamma(burstiness, 1.0 / (per_s * burstiness), requests.count)
    return replace(requests, arrived_s=np.cumsum(gaps))
