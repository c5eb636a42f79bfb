"""Constants of the serving model: priors from data times fitted effects shared by siblings.

Idea: a hierarchical model. A constant of a chip has the effect of all chips, of its generation and
of the chip; one of an engine has the effects of all engines, of its runtime and of its release
range; one of a link has the effects of all links and of the link. A chip, engine or release without
runs inherits the effects of its siblings: a new release starts near the last one. Only the
effects in calibration.toml are fitted; all others are 1.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.chip import read_variants
from gpuyard.perf.inference.serving_engine import ServingEngine, read_engines

Reals = npt.NDArray[np.float64]
PATH = Path(__file__).parent / "data" / "constants.toml"
GENERATIONS = {
    "h200": "hopper",
    "ada": "hopper",
    "ultra": "blackwell",
    "rtx": "blackwell",
}  # the other chips name their generation
# Quantities of device code, which engines with the same code share.
CODE = ("gemm", "layer_us", "eager_layer_us", "eager_expert_us", "reduce", "passes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A factor on some constants, and the prior standard deviation of its logarithm."""

    name: str
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The prior of a constant, its bounds, and the effects on it."""

    name: str
    prior: float
    low: float
    high: float
    effects: tuple[Effect, ...]
    meaning: str
    source: str

    @property
    def fitted(self) -> bool:
        return bool(self.effects)


@functools.cache
def read_constants() -> tuple[Constant, ...]:
    """Return the constants of every chip, engine and link, and the shared ones."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))
    engines = {engine.name: engine for engine in read_engines()}
    kinds = dict.fromkeys(variant.kernels for variant in read_variants())
    constants: list[Constant] = []
    for kind in kinds:
        for what, cell in table["chip"].items():
            if kind in cell["priors"]:
                constants.append(_constant(f"{kind}.{what}", kind, cell, _chip_levels(kind, what)))
    for link in table["link"]["latency_us"]["priors"]:
        for what, cell in table["link"].items():
            own = f"{link}.{what}"
            constants.append(_constant(own, link, cell, (f"links.{what}", own)))
    for name, engine in engines.items():
        for what, cell in table["engine"].items():
            levels = _engine_levels(engine, what)
            constants.append(_constant(f"{name}.{what}", name, cell, levels))
    constants.extend(_constant(name, "", cell, (name,)) for name, cell in table["shared"].items())
    return tuple(constants)


def _constant(name: str, owner: str, cell: Mapping[str, object], levels: Sequence[str]) -> Constant:
    priors = cell.get("priors", {})
    spreads = cell.get("spreads", [])
    assert isinstance(priors, dict)
    assert isinstance(spreads, list)
    pairs = zip(levels, spreads, strict=bool(spreads))
    effects = [Effect(name=level, spread=float(size)) for level, size in pairs]
    return Constant(
        name=name,
        prior=float(priors.get(owner, cell.get("prior"))),
        low=float(str(cell["low"])),
        high=float(str(cell["high"])),
        effects=tuple(effect for effect in effects if effect.spread),
        meaning=str(cell["meaning"]),
        source=str(cell["source"]),
    )


def _chip_levels(kind: str, what: str) -> tuple[str, ...]:
    return f"chips.{what}", f"{GENERATIONS.get(kind, kind)}-chips.{what}", f"{kind}.{what}"


def _engine_levels(engine: ServingEngine, what: str) -> tuple[str, ...]:
    shared = engine.code and what in CODE
    own = f"{engine.code}-code.{what}" if shared else f"{engine.name}.{what}"
    return f"engines.{what}", f"{engine.runtime}-engines.{what}", own


def effects_of(constants: Sequence[Constant]) -> tuple[Effect, ...]:
    """Return the effects that exist on these constants, in order."""
    return tuple({e.name: e for constant in constants for e in constant.effects}.values())


def design(constants: Sequence[Constant], effects: Sequence[Effect]) -> Reals:
    """Return the matrix (constants × effects) of log constant = log prior + matrix @ effects."""
    place = {effect.name: k for k, effect in enumerate(effects)}
    matrix = np.zeros((len(constants), len(effects)))
    for i, constant in enumerate(constants):
        for effect in constant.effects:
            if effect.name in place:
                matrix[i, place[effect.name]] = 1.0
    return matrix


def values_of(
    constants: Sequence[Constant], factors: Mapping[str, float], others: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    """Yield the constants: priors times factors, clipped to their bounds; `others` override."""
    for constant in constants:
        value = constant.prior
        for effect in constant.effects:
            value *= factors.get(effect.name, 1.0)
        value = min(max(value, constant.low), constant.high)
        yield constant.name, others.get(constant.name, value)
