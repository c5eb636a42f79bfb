"""Completions and chats as OpenAI's objects: whole responses, and chunks of a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.serving.language import Token, TokenScore

NOTHING = Token(text="", prompt_tokens=0, completion_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The text of one choice, or a part of it."""

    index: int
    text: str
    last: Token
    scores: tuple[TokenScore, ...] = ()


class ResponseObjects:
    """Builds the objects of one response; its id and time are those of all its chunks."""

    def __init__(self, model: str, *, is_chat: bool, with_logprobs: bool) -> None:
        self._model, self._is_chat, self._with_logprobs = model, is_chat, with_logprobs
        self._id = f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def whole(self, choices: Sequence[Choice], per_prompt: int) -> dict[str, object]:
        """Return the whole response."""
        kind = "chat.completion" if self._is_chat else "text_completion"
        return self._object(kind, [self._choice(choice) for choice in choices]) | {
            "usage": usage(choices, per_prompt)
        }

    def chunk(self, choice: Choice, *, first: bool = False) -> dict[str, object]:
        """Return one event of a stream."""
        if not self._is_chat:
            return self._object("text_completion", [self._choice(choice)])
        delta = {"role": "assistant"} if first else {}
        item = self._shell(choice) | {"delta": {**delta, "content": choice.text}}
        return self._object("chat.completion.chunk", [item])

    def usage_chunk(self, choices: Sequence[Choice], per_prompt: int) -> dict[str, object]:
        """Return the last event of a stream, with the numbers of tokens."""
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        return self._object(kind, []) | {"usage": usage(choices, per_prompt)}

    def _object(self, kind: str, choices: list[dict[str, object]]) -> dict[str, object]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _shell(self, choice: Choice) -> dict[str, object]:
        scores = None
        if self._with_logprobs:
            scores = _chat_scores(choice) if self._is_chat else _text_scores(choice)
        return {
            "index": choice.index,
            "logprobs": scores,
            "finish_reason": choice.last.finish or None,
        }

    def _choice(self, choice: Choice) -> dict[str, object]:
        if not self._is_chat:
            return self._shell(choice) | {"text": choice.text}
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return self._shell(choice) | {"message": message}


def usage(choices: Sequence[Choice], per_prompt: int) -> dict[str, int]:
    """Return the numbers of tokens; the choices of one prompt count it once."""
    prompt = sum(choice.last.prompt_tokens for choice in choices[::per_prompt])
    completion = sum(choice.last.completion_tokens for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _text_scores(choice: Choice) -> dict[str, object]:
    offsets, at = [], 0
    for score in choice.scores:
        offsets.append(at)
        at += len(score.text)
    return {
        "tokens": [score.text for score in choice.scores],
        "token_logprobs": [score.logprob for score in choice.scores],
        "top_logprobs": [
            None if score.logprob is None else dict(score.top) for score in choice.scores
        ],
        "text_offset": offsets,
    }


def _chat_scores(choice: Choice) -> dict[str, object]:
    def item(text: str, logprob: float | None) -> dict[str, object]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    return {
        "content": [
            item(score.text, score.logprob)
            | {"top_logprobs": [item(text, value) for text, value in score.top]}
            for score in choice.scores
        ]
    }
