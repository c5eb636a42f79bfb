"""Small language models with transformers and torch, generated token by token.

Requests are decoded one after another with a KV cache and are not batched. For many concurrent
users, deploy vLLM, SGLang, TensorRT-LLM or JetStream with `gpuyard provision`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.errors import ExternalError
from gpuyard.serving.request_errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A prompt and its sampling parameters."""

    prompt: str | tuple[int, ...]
    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    echo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One piece of generated text, with the finish reason on the last one."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = ""  # "stop" or "length"


class LanguageEngine:
    """A causal language model with its tokenizer."""

    def __init__(self, folder: Path) -> None:
        import torch
        import transformers

        self._torch: Any = torch
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder), local_files_only=True
            )
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ExternalError(
                str(folder), f"transformers cannot load the model: {error}", "export it again"
            ) from error
        self._model: Any = model.eval()
        config: Any = model.config
        self.context_tokens = int(getattr(config, "max_position_embeddings", 0) or 0)
        ends: Any = getattr(model.generation_config, "eos_token_id", None)
        if ends is None:
            ends = config.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])

    def tokens_of(self, request: GenerationRequest) -> list[int]:
        """Tokenize the prompt. Raise RequestError if the model cannot take it."""
        size = int(self._model.config.vocab_size)
        tokens = (
            list(request.prompt)
            if isinstance(request.prompt, tuple)
            else list(self._tokenizer.encode(request.prompt))
        )
        if not tokens:
            raise RequestError(400, "the prompt has no tokens")
        if any(not 0 <= token < size for token in tokens):
            raise RequestError(400, f"prompt token ids must be below {size}")
        if self.context_tokens and len(tokens) + request.max_tokens > self.context_tokens:
            what = f"{len(tokens)} prompt tokens and {request.max_tokens} new tokens exceed"
            raise RequestError(400, f"{what} the context length of {self.context_tokens}")
        return tokens

    def generate(self, request: GenerationRequest, stopped: threading.Event) -> Iterator[Token]:
        """Yield the text token by token; stop early when `stopped` is set."""
        torch, prompt = self._torch, self.tokens_of(request)
        random = torch.Generator().manual_seed(request.seed) if request.seed is not None else None
        if request.echo:
            yield Token(
                text=self._tokenizer.decode(prompt), prompt_tokens=len(prompt), completion_tokens=0
            )
        generated: list[int] = []
        feed = torch.tensor([prompt])
        cache = None
        sent = ""
        with torch.inference_mode():
            while len(generated) < request.max_tokens and not stopped.is_set():
                output = self._model(input_ids=feed, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                token = self._sample(output.logits[0, -1], request, random)
                ended = token in self._ends
                if not ended:
                    generated.append(token)
                text = self._tokenizer.decode(generated, skip_special_tokens=True)
                cut = min((text.find(mark) for mark in request.stop if mark in text), default=-1)
                if cut >= 0:
                    text, ended = text[:cut], True
                last = ended or len(generated) == request.max_tokens
                safe = text if last else text[: len(text) - _held_back(text, request.stop)]
                finish = ("stop" if ended else "length") if last else ""
                yield Token(
                    text=safe[len(sent) :],
                    prompt_tokens=len(prompt),
                    completion_tokens=len(generated),
                    finish=finish,
                )
                sent = safe if len(safe) > len(sent) else sent
                if last:
                    return
                feed = torch.tensor([[token]])

    # Greedy at temperature 0, nucleus (top-p) sampling otherwise.
    def _sample(self, logits: Any, request: GenerationRequest, random: Any) -> int:
        torch = self._torch
        if request.temperature <= 0:
            return int(torch.argmax(logits))
        odds = torch.softmax(logits.float() / request.temperature, dim=-1)
        if request.top_p < 1:
            sorted_odds, order = torch.sort(odds, descending=True)
            before = torch.cumsum(sorted_odds, dim=-1) - sorted_odds
            odds = torch.zeros_like(odds).scatter(
                0, order, sorted_odds.masked_fill(before >= request.top_p, 0.0)
            )
        return int(torch.multinomial(odds, 1, generator=random))


# Number of characters at the end that may turn out to be the start of a stop string.
def _held_back(text: str, stops: tuple[str, ...]) -> int:
    held = 1 if text.endswith("\ufffd") else 0  # a character split over several tokens
    for mark in stops:
        for size in range(min(len(mark) - 1, len(text)), held, -1):
            if mark.startswith(text[-size:]):
                held = size
                break
    return held
