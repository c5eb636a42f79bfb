"""Choose the next token: penalties, logit bias, temperature, top-k, top-p, JSON grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.serving.json_grammar import Grammar, GrammarState

GREEDY_TEMPERATURE = 1e-5  # below, dividing by it overflows; the likeliest token is chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How tokens are drawn from the model's distribution."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all tokens
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledToken:
    """A token, and its log probability under the model itself (before any setting)."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # the likeliest tokens


class Sampler:
    """Draws the tokens of one completion."""

    def __init__(
        self,
        settings: SamplingSettings,
        *,
        torch: Any,
        generator: Any,
        ends: frozenset[int],
        added_text: Callable[[Sequence[int], int], str],
    ) -> None:
        self._settings = settings
        self._torch = torch
        self._generator = generator
        self._ends = ends
        self._added_text = added_text  # text that a token adds to the tokens so far
        grammar = settings.grammar
        self._state: GrammarState | None = None if grammar is None else grammar.start
        self._counts: dict[int, int] = {}

    @property
    def is_final(self) -> bool:
        """Whether the grammar allows no more text."""
        return self._state is not None and self._state.is_final

    def next(self, logits: Any, generated: Sequence[int]) -> int | None:
        """Return the next token; None if no token continues the JSON."""
        scores = self._adjusted(logits.float())
        for token in self._candidates(scores):
            if self._allows(token, generated):
                self._counts[token] = self._counts.get(token, 0) + 1
                return token
        return None

    def _adjusted(self, logits: Any) -> Any:
        settings = self._settings
        if not (settings.logit_bias or settings.presence_penalty or settings.frequency_penalty):
            return logits
        scores = logits.clone()
        for token, count in self._counts.items():
            scores[token] -= settings.presence_penalty + settings.frequency_penalty * count
        for token, bias in settings.logit_bias:
            scores[token] += bias
        return scores

    def _candidates(self, scores: Any) -> Iterator[int]:
        """Yield tokens until one is accepted: the draw, and on rejection a draw from the rest.

        Drawing again without the rejected tokens is a draw from the distribution over the allowed
        ones.
        """
        torch, settings = self._torch, self._settings
        if settings.temperature < GREEDY_TEMPERATURE:
            yield int(torch.argmax(scores))  # the usual case needs no sorting
            yield from (int(token) for token in torch.argsort(scores, descending=True))
            return
        odds = torch.softmax(scores / settings.temperature, dim=-1)
        likely = self._truncated(odds)
        while float(likely.sum()) > 0:
            token = int(torch.multinomial(likely, 1, generator=self._generator))
            yield token
            likely[token] = odds[token] = 0.0
        # No token of the top-k and top-p set is allowed: the others, likeliest first.
        yield from (int(token) for token in torch.argsort(odds, descending=True))

    def _truncated(self, odds: Any) -> Any:
        torch, settings = self._torch, self._settings
        if settings.top_k <= 0 and settings.top_p >= 1:
            return odds.clone()
        ordered, order = torch.sort(odds, descending=True)
        if settings.top_k > 0:
            ordered[settings.top_k :] = 0.0
        before = torch.cumsum(ordered, dim=-1) - ordered
        ordered = ordered.masked_fill(before >= settings.top_p, 0.0)
        return torch.zeros_like(odds).scatter(0, order, ordered)

    def _allows(self, token: int, generated: Sequence[int]) -> bool:
        grammar = self._settings.grammar
        if grammar is None or self._state is None:
            return True
        if token in self._ends:
            return self._state.is_complete
        text = self._added_text(generated, token)
        if not text or "\ufffd" in text:  # special tokens, and parts of characters
            return False
        state = grammar.advance(self._state, text)
        if state is None:
            return False
        self._state = state
        return True


def scored(torch: Any, logits: Any, token: int, top: int) -> SampledToken:
    """Return a token with its log probability and the `top` likeliest ones."""
    logs = torch.log_softmax(logits.float(), dim=-1)
    best = torch.topk(logs, min(top, len(logs)))
    return SampledToken(
        token=token,
        logprob=float(logs[token]),
        top=tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True)),
    )
