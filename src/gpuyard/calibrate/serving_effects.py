"""Effects that the serving model's constants share: a constant is its prior times a few factors.

Idea: a hierarchical model. A constant of a chip has the effect of all chips, of its generation and
a small one for the chip; one of an engine has effects of all engines, of its runtime and of its
release range; one of a link has effects of all links and of the link. A chip, engine or release
without runs thus takes the effects of its siblings. Spreads are prior standard deviations of
log(effect).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.chip import read_variants
from gpuyard.perf.inference.serving_engine import read_engines

Reals = npt.NDArray[np.float64]
NOT_FITTED = ("memory.", "transfer.", "mlperf.")  # not part of a step's time
GENERATIONS = {
    "h200": "hopper",
    "ada": "hopper",
    "ultra": "blackwell",
    "rtx": "blackwell",
}  # the other chips name their generation
# Spreads of the effects of all chips, of a generation, of a chip.
CHIP = {
    "gemm": (0.15, 0.03, 0.01),
    "stream": (0.1, 0.06, 0.015),
    "expert_stream": (0.2, 0.035, 0.01),
    "experts": (0.4, 0.07, 0.025),
    "kv": (0.15, 0.08, 0.025),
    "kv_group": (0.6, 0.09, 0.025),
    "latent": (0.3, 0.05, 0.02),
    "latent_rate": (0.4, 0.07, 0.02),
    "attention": (0.2, 0.04, 0.015),
    "layer_us": (0.8, 0.07, 0.02),
    "expert_layer_us": (0.8, 0.1, 0.025),
    "latent_layer_us": (0.8, 0.1, 0.025),
    "across_rate": (0.3, 0.0, 0.3),  # of hosts, which differ more than chips
    "bus_latency": (0.0, 0.0, 0.3),
    "bus_rate": (0.0, 0.0, 0.2),
}
# Spreads of the effects of all engines, of a runtime, of a release range.
ENGINE = {
    "gemm": (0.0, 0.03, 0.03),
    "layer_us": (0.8, 0.3, 0.5),
    "eager_layer_us": (0.8, 0.3, 0.5),
    "eager_expert_us": (0.8, 0.3, 0.3),
    "reduce": (0.0, 0.6, 0.3),
    "host_us": (0.8, 0.3, 0.6),
    "host_sequence_us": (0.8, 0.3, 0.25),
    "host_token_us": (0.5, 0.2, 0.2),
    "request_us": (0.8, 0.3, 0.25),
    "request_token_us": (0.8, 0.3, 0.25),
    "passes": (0.3, 0.2, 0.12),
    "poll_steps": (0.3, 0.12, 0.12),
}
# Constants of device code.
CODE = ("gemm", "layer_us", "eager_layer_us", "eager_expert_us", "reduce", "passes")
LINK = {"latency_us": (0.2, 0.2), "ratio": (0.2, 0.2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A factor of some constants, and the prior spread of its logarithm."""

    name: str
    spread: float


def effects_of(name: str, spread: float) -> tuple[Effect, ...]:
    """Return the effects on a constant; one without siblings has a single effect."""
    if name.startswith(NOT_FITTED):
        return ()
    owner, _, what = name.partition(".")
    engines = {engine.name: engine for engine in read_engines()}
    levels: tuple[tuple[str, float], ...] = ((name, spread),)
    if owner in engines:
        every, shared, own = ENGINE[what]
        runtime, code = engines[owner].runtime, engines[owner].code
        last = f"{code}-code.{what}" if code and what in CODE else name
        levels = ((f"engines.{what}", every), (f"{runtime}-engines.{what}", shared), (last, own))
    elif owner in {variant.kernels for variant in read_variants()}:
        every, shared, own = CHIP[what.partition(".")[0]]
        levels = (
            (f"chips.{what}", every),
            (f"{GENERATIONS.get(owner, owner)}-chips.{what}", shared),
            (name, own),
        )
    elif what in LINK:
        levels = ((f"links.{what}", LINK[what][0]), (name, LINK[what][1]))
    return tuple(Effect(name=level, spread=size) for level, size in levels if size)


def design(names: Sequence[str], spreads: Sequence[float]) -> tuple[tuple[Effect, ...], Reals]:
    """Return all effects on these constants, and the design matrix (constants × effects)."""
    by_constant = [effects_of(name, spread) for name, spread in zip(names, spreads, strict=True)]
    effects = tuple({effect.name: effect for some in by_constant for effect in some}.values())
    place = {effect.name: k for k, effect in enumerate(effects)}
    matrix = np.zeros((len(names), len(effects)))
    for i, some in enumerate(by_constant):
        for effect in some:
            matrix[i, place[effect.name]] = 1.0
    return effects, matrix
