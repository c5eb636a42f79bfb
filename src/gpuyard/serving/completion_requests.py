"""Completion and chat requests in OpenAI's format: parsed, checked, as generations to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from gpuyard.serving.json_grammar import Grammar, any_object
from gpuyard.serving.language import MAX_TOKENS, GenerationRequest
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.sampling import SamplingSettings

MAX_CHOICES = 64  # prompts × n of one request
MAX_LOGPROBS = 20
MAX_PENALTY = 2.0
MAX_BIAS = 100.0
MAX_SEED = 1 << 63


class _ResponseFormat(msgspec.Struct, kw_only=True):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: dict[str, object] | None = None


class _StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool = False


class _Request(msgspec.Struct, kw_only=True):
    """Fields of both kinds of requests; fields that would change the answer are not ignored."""

    model: str
    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    n: int = 1
    stream: bool = False
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    response_format: _ResponseFormat | None = None


class _Completion(_Request, kw_only=True):
    prompt: str | list[int | str | list[int]]
    echo: bool = False
    logprobs: int | None = None
    best_of: int | None = None
    suffix: str | None = None


class _Part(msgspec.Struct, kw_only=True):
    type: str
    text: str = ""


class _Message(msgspec.Struct, kw_only=True):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[object] | None = None


class _Chat(_Request, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[object] | None = None
    functions: list[object] | None = None
    modalities: list[str] | None = None


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """The choices to generate for one request, and how they are returned.

    A chat has its messages in place of prompts: the model renders them with its template.
    """

    model: str
    generations: tuple[GenerationRequest, ...]  # one per choice
    stream: bool = False
    include_usage: bool = False
    messages: tuple[dict[str, str], ...] = ()
    with_logprobs: bool = False
    choices_per_prompt: int = 1

    @property
    def is_chat(self) -> bool:
        return bool(self.messages)


def read_completion(body: bytes) -> CompletionRequest:
    """Parse the body of /v1/completions. Raise RequestError if it is invalid."""
    request = _decoded(_Completion, body)
    _refuse(("best_of", request.best_of not in (None, request.n)), ("suffix", request.suffix))
    max_tokens = 16 if request.max_tokens is None else request.max_tokens
    if not (0 if request.echo else 1) <= max_tokens <= MAX_TOKENS:
        raise RequestError(400, f"max_tokens must be between 1 and {MAX_TOKENS}")
    _check_logprobs(request.logprobs, "logprobs")
    prompts = _prompts(request.prompt)
    _check(request, len(prompts))
    sampling, stops = _sampling(request), _stops(request)
    generations = tuple(
        GenerationRequest(
            prompt=prompt,
            max_tokens=max_tokens,
            sampling=sampling,
            seed=_seed(request.seed, choice),
            stop=stops,
            echo=request.echo,
            logprobs=request.logprobs,
        )
        for prompt in prompts
        for choice in range(request.n)
    )
    return CompletionRequest(
        model=request.model,
        generations=generations,
        stream=request.stream,
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        with_logprobs=request.logprobs is not None,
        choices_per_prompt=request.n,
    )


def read_chat(body: bytes) -> CompletionRequest:
    """Parse the body of /v1/chat/completions. Raise RequestError if it is invalid."""
    request = _decoded(_Chat, body)
    modalities = [name for name in request.modalities or () if name != "text"]
    _refuse(("tools", request.tools), ("functions", request.functions), ("modalities", modalities))
    newer, older = request.max_completion_tokens, request.max_tokens
    max_tokens = older if newer is None else newer
    if max_tokens is not None and not 1 <= max_tokens <= MAX_TOKENS:
        raise RequestError(400, f"max_completion_tokens must be between 1 and {MAX_TOKENS}")
    _check_logprobs(request.top_logprobs, "top_logprobs")
    if request.top_logprobs and not request.logprobs:
        raise RequestError(400, "top_logprobs needs logprobs: true")
    if not request.messages:
        raise RequestError(400, "messages is empty")
    _check(request, 1)
    sampling, stops = _sampling(request), _stops(request)
    generations = tuple(
        GenerationRequest(
            prompt="",
            max_tokens=max_tokens,
            sampling=sampling,
            seed=_seed(request.seed, choice),
            stop=stops,
            logprobs=(request.top_logprobs or 0) if request.logprobs else None,
            special_tokens=False,
        )
        for choice in range(request.n)
    )
    return CompletionRequest(
        model=request.model,
        generations=generations,
        stream=request.stream,
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        messages=tuple(_message(item) for item in request.messages),
        with_logprobs=bool(request.logprobs),
        choices_per_prompt=request.n,
    )


def _seed(seed: int | None, choice: int) -> int | None:
    return None if seed is None else (seed + choice) % MAX_SEED


def _decoded(kind: type[_T], body: bytes) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(400, f"invalid request: {error}") from None


def _refuse(*fields: tuple[str, object]) -> None:
    for name, is_set in fields:
        if is_set:
            raise RequestError(400, f"{name} is not supported; leave it out")


def _check(request: _Request, prompts: int) -> None:
    if not 1 <= request.n * prompts <= MAX_CHOICES or request.n < 1:
        raise RequestError(400, f"n times prompts must be between 1 and {MAX_CHOICES}")
    if not 0 <= request.temperature <= 2 or not 0 < request.top_p <= 1:
        raise RequestError(400, "temperature must be between 0 and 2, top_p above 0 and at most 1")
    if request.top_k < -1:
        raise RequestError(400, "top_k must be a number of tokens; 0 or -1 for all")
    if request.seed is not None and not 0 <= request.seed < MAX_SEED:
        raise RequestError(400, "seed must be an integer of at most 63 bits")
    for name in ("presence_penalty", "frequency_penalty"):
        if abs(getattr(request, name) or 0.0) > MAX_PENALTY:
            raise RequestError(400, f"{name} must be between -2 and 2")


def _check_logprobs(count: int | None, name: str) -> None:
    if count is not None and not 0 <= count <= MAX_LOGPROBS:
        raise RequestError(400, f"{name} must be between 0 and {MAX_LOGPROBS}")


def _prompts(prompt: str | list[int | str | list[int]]) -> list[str | tuple[int, ...]]:
    if isinstance(prompt, str):
        return [prompt]
    tokens = [item for item in prompt if isinstance(item, int)]
    if tokens:
        if len(tokens) < len(prompt):
            raise RequestError(400, "prompt mixes token ids and texts")
        return [tuple(tokens)]
    return [tuple(item) if isinstance(item, list) else str(item) for item in prompt]


def _stops(request: _Request) -> tuple[str, ...]:
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    return tuple(stop for stop in stops if stop)


def _sampling(request: _Request) -> SamplingSettings:
    try:
        bias = tuple((int(token), value) for token, value in (request.logit_bias or {}).items())
    except ValueError:
        raise RequestError(400, "logit_bias: keys must be token ids") from None
    if any(abs(value) > MAX_BIAS for _, value in bias):
        raise RequestError(400, "logit_bias: values must be between -100 and 100")
    return SamplingSettings(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=max(0, request.top_k),
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        logit_bias=bias,
        grammar=_grammar(request.response_format),
    )


def _grammar(wanted: _ResponseFormat | None) -> Grammar | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return any_object()
    if not wanted.json_schema or "schema" not in wanted.json_schema:
        raise RequestError(400, "response_format: json_schema needs a schema")
    return Grammar(wanted.json_schema["schema"])


def _message(message: _Message) -> dict[str, str]:
    if message.tool_calls:
        raise RequestError(400, "tool_calls is not supported; leave it out")
    content = message.content
    if isinstance(content, list):
        other = next((part.type for part in content if part.type != "text"), None)
        if other is not None:
            raise RequestError(400, f"content of type {other[:40]} is not supported; send text")
        content = "".join(part.text for part in content)
    named = {"name": message.name} if message.name else {}
    return {"role": message.role, "content": content or "", **named}
