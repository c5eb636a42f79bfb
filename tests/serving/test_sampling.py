"""Sampling of the next token: penalties, truncation, and JSON that a random model must write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import pytest

from gpuyard.serving.json_grammar import Grammar
from gpuyard.serving.sampling import Sampler, SamplingSettings, scored

torch = pytest.importorskip("torch")
ALPHABET = '{}[]":, abAnename0123456789-'
TEXTS = ["<end>", *sorted(set(ALPHABET)), '"name": ', '{"', "an"]


def sampler(settings: SamplingSettings, seed: int = 0) -> Sampler:
    return Sampler(
        settings,
        torch=torch,
        generator=torch.Generator().manual_seed(seed),
        ends=frozenset((0,)),
        added_text=lambda _, token: TEXTS[token],
    )


def draws(settings: SamplingSettings, logits: Sequence[float], count: int) -> Counter[int]:
    drawn: Counter[int] = Counter()
    for seed in range(count):
        token = sampler(settings, seed).next(torch.tensor(logits), [])
        assert token is not None
        drawn[token] += 1
    return drawn


def test_truncation_keeps_the_likeliest_tokens() -> None:
    logits = [0.0, 1.0, 2.0, 3.0]
    assert set(draws(SamplingSettings(top_k=2), logits, 50)) == {2, 3}
    assert set(draws(SamplingSettings(top_p=0.5), logits, 50)) == {3}
    assert set(draws(SamplingSettings(), logits, 80)) >= {1, 2, 3}
    for temperature in (0, 1e-45):  # the smallest number: the scores divided by it are infinite
        assert draws(SamplingSettings(temperature=temperature), logits, 1) == {3: 1}


def test_penalties_grow_with_the_tokens_drawn_so_far() -> None:
    greedy = sampler(SamplingSettings(temperature=0, frequency_penalty=1.0))
    logits = torch.tensor([-0.1, 0.5, 2.0])
    assert [greedy.next(logits, []) for _ in range(4)] == [2, 2, 1, 2]
    once = sampler(SamplingSettings(temperature=0, presence_penalty=2.0))
    assert [once.next(logits, []) for _ in range(3)] == [2, 1, 2]
    biased = sampler(SamplingSettings(temperature=0, logit_bias=((0, 5.0),)))
    assert biased.next(logits, []) == 0


def test_scores_are_log_probabilities_without_settings() -> None:
    row = scored(torch, torch.log(torch.tensor([0.5, 0.3, 0.2])), 2, 2)
    assert row.logprob == pytest.approx(-1.609438)
    assert [token for token, _ in row.top] == [0, 1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_random_model_writes_json_of_the_schema(seed: int, temperature: float) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 4},
            "n": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["name", "n"],
    }
    settings = SamplingSettings(temperature=temperature, top_p=0.9, grammar=Grammar(schema))
    writer, noise = sampler(settings, seed), torch.Generator().manual_seed(seed)
    generated: list[int] = []
    while not writer.is_final:
        token = writer.next(torch.randn(len(TEXTS), generator=noise), generated)
        assert token
        generated.append(token)
    value = json.loads("".join(TEXTS[token] for token in generated))
    assert set(value) == {"name", "n"}
    assert len(value["name"]) <= 4
    assert all(isinstance(item, int) for item in value["n"])
