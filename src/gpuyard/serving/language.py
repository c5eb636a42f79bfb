"""A small language model by transformers and torch: prompts in, tokens out one at a time, with their text.

Requests are decoded one after another with a key-value cache; nothing is batched across requests. For many users at
once, deploy vLLM, SGLang, TensorRT-LLM or JetStream with `gpuyard provision`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.errors import RefusedError
from gpuyard.serving.failures import RequestError

__all__ = ["Generation", "LanguageEngine", "Token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What is to be written, and how."""

    prompt: str | tuple[int, ...]
    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    echo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A piece of the text, and why it ends if it does."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = ""  # "stop" or "length"


class LanguageEngine:
    """A causal language model with its tokenizer."""

    def __init__(self, folder: Path) -> None:
        try:
            import torch
            import transformers
        except ModuleNotFoundError as error:
            raise RefusedError("serve", f"{error.name} is not installed", "pip install 'gpuyard[torch]'") from None
        self._torch: Any = torch
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True)
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise RefusedError(
                str(folder), f"transformers cannot load it: {error}", "export the model again"
            ) from error
        self._model: Any = model.eval()
        config: Any = model.config
        self.context_tokens = int(getattr(config, "max_position_embeddings", 0) or 0)
        ends: Any = getattr(model.generation_config, "eos_token_id", None)
        if ends is None:
            ends = config.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])

    def tokens_of(self, ask: Generation) -> list[int]:
        """The prompt as token numbers; RequestError where the model cannot take it."""
        size = int(self._model.config.vocab_size)
        tokens = list(ask.prompt) if isinstance(ask.prompt, tuple) else list(self._tokenizer.encode(ask.prompt))
        if not tokens:
            raise RequestError(400, "the prompt has no tokens")
        if any(not 0 <= token < size for token in tokens):
            raise RequestError(400, f"a token of the prompt is not below {size}")
        if self.context_tokens and len(tokens) + ask.max_tokens > self.context_tokens:
            what = f"{len(tokens)} tokens of prompt and {ask.max_tokens} to write exceed"
            raise RequestError(400, f"{what} the model's context of {self.context_tokens}")
        return tokens

    def generate(self, ask: Generation, stopped: threading.Event) -> Iterator[Token]:
        """The text piece by piece; ends early when `stopped` is set."""
        torch, prompt = self._torch, self.tokens_of(ask)
        random = torch.Generator().manual_seed(ask.seed) if ask.seed is not None else None
        if ask.echo:
            yield Token(text=self._tokenizer.decode(prompt), prompt_tokens=len(prompt), completion_tokens=0)
        written: list[int] = []
        feed, cache, told = torch.tensor([prompt]), None, ""
        with torch.inference_mode():
            while len(written) < ask.max_tokens and not stopped.is_set():
                found = self._model(input_ids=feed, past_key_values=cache, use_cache=True)
                cache = found.past_key_values
                token = self._chosen(found.logits[0, -1], ask, random)
                ended = token in self._ends
                if not ended:
                    written.append(token)
                text = self._tokenizer.decode(written, skip_special_tokens=True)
                cut = min((text.find(mark) for mark in ask.stop if mark in text), default=-1)
                text, ended = (text[:cut], True) if cut >= 0 else (text, ended)
                last = ended or len(written) == ask.max_tokens
                safe = text if last else text[: len(text) - _held(text, ask.stop)]
                finish = ("stop" if ended else "length") if last else ""
                yield Token(text=safe[len(told) :], prompt_tokens=len(prompt), completion_tokens=len(written),
                            finish=finish)  # fmt: skip
                told = safe if len(safe) > len(told) else told
                if last:
                    return
                feed = torch.tensor([[token]])

    def _chosen(self, logits: Any, ask: Generation, random: Any) -> int:
        """The next token: the likeliest at temperature 0, else drawn from the likeliest that make up `top_p`."""
        torch = self._torch
        if ask.temperature <= 0:
            return int(torch.argmax(logits))
        odds = torch.softmax(logits.float() / ask.temperature, dim=-1)
        if ask.top_p < 1:
            sorted_odds, order = torch.sort(odds, descending=True)
            before = torch.cumsum(sorted_odds, dim=-1) - sorted_odds
            odds = torch.zeros_like(odds).scatter(0, order, sorted_odds.masked_fill(before >= ask.top_p, 0.0))
        return int(torch.multinomial(odds, 1, generator=random))


def _held(text: str, stops: tuple[str, ...]) -> int:
    """How many characters at the end may yet turn out to be the start of a stop mark, or half a character."""
    held = 1 if text.endswith("\ufffd") else 0  # a character whose bytes are spread over tokens
    for mark in stops:
        for size in range(min(len(mark) - 1, len(text)), held, -1):
            if mark.startswith(text[-size:]):
                held = size
                break
    return held
