"""Small language models with transformers and torch, generated token by token.

Requests are decoded one after another with a KV cache and are not batched. For many concurrent
users, deploy vLLM, SGLang, TensorRT-LLM or JetStream with `gpuyard provision`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.errors import ExternalError
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.sampling import Sampler, SamplingSettings, scored

PLAIN = SamplingSettings()
MAX_TOKENS = 4096  # per completion
WINDOW_TOKENS = 8  # decoded together with a new token to see the text that it adds


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A prompt and its sampling settings."""

    prompt: str | tuple[int, ...]
    max_tokens: int | None = 16  # None: until the context is full
    sampling: SamplingSettings = PLAIN
    seed: int | None = None
    stop: tuple[str, ...] = ()
    echo: bool = False
    logprobs: int | None = None  # number of likeliest tokens to report with every token
    special_tokens: bool = True  # added to the prompt; a rendered chat has its own


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScore:
    """The text of a token, its log probability, and those of the likeliest tokens."""

    text: str
    logprob: float | None  # None: the first token of a prompt has none
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One piece of generated text, with the finish reason on the last one."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = ""  # "stop" or "length"
    scores: tuple[TokenScore, ...] = ()


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

    def chat_prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Render a conversation with the model's chat template. Raise RequestError without one."""
        if not self._tokenizer.chat_template:
            what = "the model has no chat template; use /v1/completions"
            raise RequestError(400, what)
        import jinja2

        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages), tokenize=False, add_generation_prompt=True
                )
            )
        except (jinja2.TemplateError, ValueError, TypeError) as error:
            raise RequestError(400, f"messages: {error}") from None

    def tokens_of(self, request: GenerationRequest) -> list[int]:
        """Tokenize the prompt. Raise RequestError if the model cannot take it."""
        size = int(self._model.config.vocab_size)
        tokens = (
            list(request.prompt)
            if isinstance(request.prompt, tuple)
            else list(
                self._tokenizer.encode(request.prompt, add_special_tokens=request.special_tokens)
            )
        )
        if not tokens:
            raise RequestError(400, "the prompt has no tokens")
        if any(not 0 <= token < size for token in tokens):
            raise RequestError(400, f"prompt token ids must be below {size}")
        if any(not 0 <= token < size for token, _ in request.sampling.logit_bias):
            raise RequestError(400, f"logit_bias: token ids must be below {size}")
        new = 1 if request.max_tokens is None else request.max_tokens
        if self.context_tokens and len(tokens) + new > self.context_tokens:
            what = f"{len(tokens)} prompt tokens and {new} new tokens exceed"
            raise RequestError(400, f"{what} the context length of {self.context_tokens}")
        return tokens

    def generate(self, request: GenerationRequest, stopped: threading.Event) -> Iterator[Token]:
        """Yield the text token by token; stop early when `stopped` is set."""
        torch, prompt = self._torch, self.tokens_of(request)
        limit = self._limit(request, len(prompt))
        random = torch.Generator().manual_seed(request.seed) if request.seed is not None else None
        sampler = Sampler(
            request.sampling,
            torch=torch,
            generator=random,
            ends=self._ends,
            added_text=self._added_text,
        )
        if request.echo:
            finish = "" if limit else "length"
            yield self._echo(prompt, request, finish)
            if finish:
                return
        generated: list[int] = []
        feed = torch.tensor([prompt])
        cache = None
        sent = ""
        with torch.inference_mode():
            while len(generated) < limit and not stopped.is_set():
                output = self._model(input_ids=feed, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                logits = output.logits[0, -1]
                token = sampler.next(logits, generated)
                ended = token is None or token in self._ends
                if token is not None and not ended:
                    generated.append(token)
                    ended = sampler.is_final
                text = self._tokenizer.decode(generated, skip_special_tokens=True)
                cut = min((text.find(mark) for mark in request.stop if mark in text), default=-1)
                if cut >= 0:
                    text, ended = text[:cut], True
                last = ended or len(generated) == limit
                safe = text if last else text[: len(text) - _held_back(text, request.stop)]
                is_text = token is not None and token not in self._ends
                yield Token(
                    text=safe[len(sent) :],
                    prompt_tokens=len(prompt),
                    completion_tokens=len(generated),
                    finish=("stop" if ended else "length") if last else "",
                    scores=self._scores([logits], [token], request) if is_text else (),
                )
                sent = safe if len(safe) > len(sent) else sent
                if last:
                    return
                feed = torch.tensor([[token]])

    def _limit(self, request: GenerationRequest, prompt_tokens: int) -> int:
        if request.max_tokens is not None:
            return request.max_tokens
        return min(MAX_TOKENS, (self.context_tokens or MAX_TOKENS + prompt_tokens) - prompt_tokens)

    def _echo(self, prompt: list[int], request: GenerationRequest, finish: str) -> Token:
        """Return the prompt as text, scored if log probabilities are requested."""
        scores: tuple[TokenScore, ...] = ()
        if request.logprobs is not None:
            torch = self._torch
            with torch.inference_mode():
                logits = self._model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
            first = TokenScore(text=self._text(prompt[0]), logprob=None)
            scores = (first, *self._scores(logits[:-1], prompt[1:], request))
        return Token(
            text=self._tokenizer.decode(prompt),
            prompt_tokens=len(prompt),
            completion_tokens=0,
            finish=finish,
            scores=scores,
        )

    def _scores(
        self, logits: Any, tokens: Sequence[int | None], request: GenerationRequest
    ) -> tuple[TokenScore, ...]:
        if request.logprobs is None:
            return ()
        rows = (
            scored(self._torch, row, token, request.logprobs)
            for row, token in zip(logits, tokens, strict=True)
            if token is not None
        )
        return tuple(
            TokenScore(
                text=self._text(row.token),
                logprob=row.logprob,
                top=tuple((self._text(token), value) for token, value in row.top),
            )
            for row in rows
        )

    def _text(self, token: int) -> str:
        return str(self._tokenizer.decode([token]))

    def _added_text(self, generated: Sequence[int], token: int) -> str:
        window = list(generated[-WINDOW_TOKENS:])
        before = self._tokenizer.decode(window, skip_special_tokens=True)
        after = self._tokenizer.decode([*window, token], skip_special_tokens=True)
        return str(after[len(before) :]) if after.startswith(before) else ""


# Number of characters at the end that may turn out to be the start of a stop string.
def _held_back(text: str, stops: tuple[str, ...]) -> int:
    held = 1 if text.endswith("\ufffd") else 0  # a character split over several tokens
    for mark in stops:
        for size in range(min(len(mark) - 1, len(text)), held, -1):
            if mark.startswith(text[-size:]):
                held = size
                break
    return held
