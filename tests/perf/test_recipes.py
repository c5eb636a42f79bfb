"""Recipes of mixtures of experts: well-formed, and the last that matches wins for each setting."""

from __future__ import annotations

import re

import pytest

from gpuyard.perf.profiles import find_profile
from gpuyard.perf.recipes import GRAPHS, MoeRecipe, MoeSettings, choose_settings, read_recipes
from gpuyard.perf.software import expert_numbers, software

RECIPES = read_recipes()


@pytest.mark.parametrize(
    "recipe", RECIPES, ids=lambda recipe: f"{recipe.framework} {recipe.model} {recipe.chip}"
)
def test_recipes_are_well_formed(recipe: MoeRecipe) -> None:
    for pattern in (recipe.framework, recipe.model, recipe.chip, recipe.precision):
        re.compile(pattern)
    assert recipe.first < recipe.until
    assert recipe.etp is None or recipe.etp == "tp" or int(recipe.etp) >= 1
    told = (
        recipe.dispatcher,
        recipe.overlap,
        recipe.graphs,
        recipe.fused,
        recipe.flash,
        recipe.etp,
        recipe.recompute,
    )
    assert any(value is not None for value in told), "it sets nothing"


def test_unstated_settings_have_defaults() -> None:
    assert choose_settings("Own trainer", "2026", "Own-MoE", "H100-80GB", "bf16") == MoeSettings()
    assert choose_settings("", "", "", "", "") == MoeSettings()


def test_later_recipes_win_setting_by_setting() -> None:
    run = ("Megatron-Bridge 26.06", "2026-06", "DeepSeek-V3", "GB200")
    fused, plain = choose_settings(*run, "mxfp8"), choose_settings(*run, "bf16")
    assert (fused.fused, fused.overlap, fused.graphs, fused.dispatcher) == (
        True,
        True,
        "full",
        "flex",
    )
    assert (plain.fused, plain.dispatcher) == (False, "flex")
    assert fused.recompute == ("mla_up_proj",)
    assert (
        choose_settings(
            "Megatron-Bridge 26.06", "2026-06", "Qwen3-30B-A3B", "GB200", "mxfp8"
        ).recompute
        == ()
    )


def test_periods() -> None:
    later = choose_settings("NeMo/Megatron-Core", "2026-05", "GPT-OSS-20B", "GB300", "mxfp8")
    assert (later.graphs, later.dispatcher, later.fused) == ("full", "flex", True)
    assert choose_settings("NeMo", "2025-03", "Grok1-314B", "H100-80GB", "bf16").etp == "tp"
    assert choose_settings("NeMo", "2025-05", "Grok1-314B", "H100-80GB", "bf16").etp == "1"


def test_settings_as_numbers() -> None:
    found = expert_numbers(
        MoeSettings(dispatcher="flex", overlap=True, graphs="partial", fused=True, flash=False), 1.0
    )
    assert found == {
        "deepep": 1.0,
        "moe_overlap": 1.0,
        "graphs": GRAPHS["partial"],
        "fused_experts": 1.0,
        "flash": 0.0,
    }
    assert (
        expert_numbers(MoeSettings(), 0.0)["flash"] == 0.0
    )  # a recipe gives no profile fused attention
    assert list(GRAPHS.values()) == sorted(GRAPHS.values())
    soft = software(
        find_profile("megatron-bridge-26.06"), 1.0, nvl72=True, experts=MoeSettings(graphs="router")
    )
    assert soft.graphs == GRAPHS["router"]
