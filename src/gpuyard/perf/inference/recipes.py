"""Settings of published closed-loop runs with public recipes: memory, batching, dtypes."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import KvFormat
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.units import TOKENS

# Token budget of generated settings in addition to one prompt and the users.
GENERATED_TOKENS = 1500
GENERATED_RATIO = 0.8  # of free memory
CHUNK_TOKENS = 8192  # SGLang's chunked_prefill_size
SPARE_TOKENS = 128.0  # added by recipes to one prompt and the users


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeQuery:
    """The run that recipes are matched with."""

    engine: str
    model: str
    chip: str
    weights: str
    date: str
    layout: ReplicaLayout
    prompt_tokens: float
    output_tokens: float
    users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRecipe:
    """Patterns over runs, and the settings of those runs; blanks keep the engine's."""

    name: str
    engine: Annotated[str, Doc("pattern over the engine's name")]
    model: Annotated[str, Doc("pattern over the model's name")]
    chip: Annotated[str, Doc("pattern over the chip's name")] = ""
    weights: Annotated[str, Doc("pattern over the format of weights")] = ""
    since: Annotated[str, Doc("first date")] = ""
    before: Annotated[str, Doc("before this date")] = "9"
    chips_below: Annotated[int, Doc("only replicas of fewer chips; 0: any")] = 0
    length_tokens: Annotated[int, TOKENS, Doc("prompt and output together; 0: any")] = 0
    least_users: int = 0
    memory_ratio: float | None = None
    budget_tokens: Annotated[int | None, TOKENS] = None
    prompt_count: Annotated[int | None, Doc("token budget in prompts")] = None
    sequences: int | None = None
    wait_steps: Annotated[float | None, Doc("steps until the engine polls its queue")] = None
    overlaps: Annotated[bool | None, Doc("the next step is scheduled before the last one ends")] = (
        None
    )
    kv: KvFormat | None = None
    experts: Annotated[str | None, Doc("kernels of experts")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    recipes: tuple[ServingRecipe, ...]


@functools.cache
def _read() -> tuple[ServingRecipe, ...]:
    return decode(
        read_file(Path(__file__).parent / "data" / "recipes.toml").root, _File, Keys.SUFFIXED
    ).recipes


def recipe_of(run: RecipeQuery) -> ServingRecipe | None:
    """Return the settings of all matching recipes; later ones win."""
    merged: ServingRecipe | None = None
    for recipe in _read():
        if not _fits(recipe, run):
            continue
        stated = {name: value for name in SETS if (value := getattr(recipe, name)) is not None}
        merged = replace(merged or recipe, **stated)
    return merged


SETS = (
    "memory_ratio",
    "budget_tokens",
    "prompt_count",
    "sequences",
    "wait_steps",
    "overlaps",
    "kv",
    "experts",
)


def _fits(recipe: ServingRecipe, run: RecipeQuery) -> bool:
    chips = run.layout.tp * run.layout.attention_dp
    return (
        all(
            re.search(pattern, text)
            for pattern, text in (
                (recipe.engine, run.engine),
                (recipe.model, run.model),
                (recipe.chip, run.chip),
                (recipe.weights, run.weights),
            )
        )
        and recipe.since <= run.date < recipe.before
        and (not recipe.chips_below or chips < recipe.chips_below)
        and recipe.length_tokens in (0, int(run.prompt_tokens + run.output_tokens))
        and run.users >= recipe.least_users
    )


def apply_recipe(engine: ServingEngine, recipe: ServingRecipe, run: RecipeQuery) -> ServingEngine:
    """Return the engine as the recipe starts it."""
    budget = recipe.budget_tokens
    if recipe.prompt_count:
        budget = int(recipe.prompt_count * run.prompt_tokens)
        budget += int(run.users + SPARE_TOKENS) if engine.family == "tensorrt-llm" else 0
    return replace(
        engine,
        memory_ratio=recipe.memory_ratio or engine.memory_ratio,
        budget_tokens=budget or engine.budget_tokens,
        sequence_count=recipe.sequences or engine.sequence_count,
        tuned=False if budget or recipe.sequences else engine.tuned,
        overlaps=recipe.overlaps or engine.overlaps,
        experts=recipe.experts or engine.experts,
    )


def as_generated(engine: ServingEngine, prompt_tokens: float, users: int) -> ServingEngine:
    """Return the engine as AIConfigurator's generator sets it up: one prompt and the users.

    Source: src/aiconfigurator/generator/rule_plugin/benchmark of ai-dynamo/aiconfigurator.
    """
    budget = int(prompt_tokens) + GENERATED_TOKENS
    if engine.family == "sglang":  # admits prompts until its budget is exceeded, mixed with decode
        most = int(-(-budget // prompt_tokens) * prompt_tokens)
        return replace(engine, mixes=True, budget_tokens=users + min(most, CHUNK_TOKENS))
    free = engine.memory == "free"
    return replace(
        engine,
        memory_ratio=GENERATED_RATIO if free else engine.memory_ratio,
        sequence_count=users if free else engine.sequence_count,
        budget_tokens=users + budget,
        tuned=False,
    )
