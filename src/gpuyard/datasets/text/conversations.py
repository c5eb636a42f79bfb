"""Conversations step: prompts and responses, or chats, as sequences whose labels are the replies.

Every conversation is one sequence, padded at its end. Only tokens that the assistant writes, with
the end of its turn, are labels: the loss of the others is masked (supervised fine-tuning).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.batch import Slots
from gpuyard.datasets.columns import ALL_KINDS, Columns
from gpuyard.datasets.step import Operation, Statistics, StepSettings
from gpuyard.datasets.text.chat_template import PLAIN, ChatTemplate, read_template
from gpuyard.datasets.text.tokenizer import (
    END_OF_TEXT,
    TOKENIZER_FILE,
    Coder,
    byte_coder,
    load_coder,
    parse_coder,
)
from gpuyard.datasets.text.tokens import (
    MAX_SEQUENCE_TOKENS,
    NOT_LEARNED,
    ShardFacts,
    facts_path,
    write_blocks,
)
from gpuyard.document.encode import dump_json
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, Problem
from gpuyard.home import write_atomic
from gpuyard.units import TOKENS

BLOCK_ROWS = 256  # conversations written at once
Messages: TypeAlias = list[dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationState:
    """The tokenizer, its chat template, and the columns that hold the messages."""

    prompt: str
    response: str
    system: str
    messages: str
    tokenizer: str
    template: str
    bos_token: str
    eos_token: str
    end_of_text: str
    sequence_tokens: int

    @property
    def reads(self) -> tuple[str, ...]:
        names = (self.messages,) if self.messages else (self.system, self.prompt, self.response)
        return tuple(name for name in names if name)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return nothing: the writer encodes."""
        return ()

    def after(self, columns: Columns) -> Columns:
        dropped = [name for name in columns.names if name not in self.reads]
        return columns.with_columns({}, drop=dropped)

    def numpy_operation(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Return an operation that does nothing: servers render chats with the same template."""
        return lambda batch: None  # noqa: ARG005

    def writer(self) -> ConversationWriter:
        return ConversationWriter(part=self)

    @property
    def chat(self) -> ChatTemplate:
        return ChatTemplate(text=self.template, bos_token=self.bos_token, eos_token=self.eos_token)

    def conversations(self, frame: pl.DataFrame) -> Iterator[Messages]:
        """Yield the messages of every row; none for a row without a reply."""
        if self.messages:
            for value in frame[self.messages].to_list():
                yield _messages(value)
            return
        systems = frame[self.system].to_list() if self.system else [None] * frame.height
        pairs = zip(systems, frame[self.prompt], frame[self.response], strict=True)
        for system, prompt, response in pairs:
            if prompt is None or not response:
                yield []
                continue
            first = [{"role": "system", "content": system}] if system else []
            yield [
                *first,
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": response},
            ]


def _messages(value: Any) -> list[dict[str, object]]:
    try:
        items = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and isinstance(item.get("role"), str) for item in items
    ):
        what = "a row is not a list of messages with role and content"
        raise InputError.one("conversations: messages", what, "name a column of messages")
    return [{"role": item["role"], "content": item.get("content") or ""} for item in items]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWriter:
    """Writes the conversations of a partition and split as one shard with a mask."""

    kind: ClassVar[Literal["tokens"]] = "tokens"
    suffix: ClassVar[str] = ".bin"
    part: ConversationState

    @property
    def sequence_tokens(self) -> int:
        return self.part.sequence_tokens

    def write(self, frame: pl.DataFrame, path: str) -> int:
        def samples(block: pl.DataFrame) -> Iterator[tuple[Messages]]:
            return ((messages,) for messages in self.part.conversations(block))

        return write_samples(self.part, frame, Path(path), samples)


def write_samples(
    part: ConversationState,
    frame: pl.DataFrame,
    file: Path,
    samples: Callable[[pl.DataFrame], Iterable[tuple[Messages, ...]]],
    conversations_per_sample: int = 1,
) -> int:
    """Write samples of one or more padded conversations; return the number of those kept.

    A sample is kept if each of its conversations has a reply within the sequence.
    """
    coder = chat_coder(part.tokenizer, part.end_of_text)
    chat, is_plain, size = part.chat, part.template == PLAIN, part.sequence_tokens
    rows_count = samples_count = in_tokens = left_tokens = 0

    def blocks() -> Iterator[bytes]:
        nonlocal rows_count, samples_count, in_tokens, left_tokens
        for start in range(0, frame.height, BLOCK_ROWS):
            rows: list[npt.NDArray[np.uint32]] = []
            for sample in samples(frame.slice(start, BLOCK_ROWS)):
                tokens = [encode(coder, chat, one, ends_with_mark=is_plain) for one in sample]
                samples_count += 1
                in_tokens += sum(len(one) for one in tokens)
                left_tokens += sum(max(0, len(one) - size) for one in tokens)
                cuts = [one[:size] for one in tokens]
                if all((cut[1:] < NOT_LEARNED).any() for cut in cuts):
                    rows.append(
                        np.concatenate([padded(cut, size, coder.end_token) for cut in cuts])
                    )
            rows_count += len(rows)
            yield b"".join(row.astype("<u4").tobytes() for row in rows)

    digest = write_blocks(blocks(), file)
    sequence_tokens = conversations_per_sample * size
    facts = ShardFacts(
        sequences_count=rows_count,
        sequence_tokens=sequence_tokens,
        dtype="uint32",
        vocabulary_count=coder.vocabulary_count,
        end_token=coder.end_token,
        texts_count=rows_count,
        empty_count=samples_count - rows_count,  # without a reply within the sequence
        in_tokens=in_tokens,
        packed_tokens=rows_count * sequence_tokens,
        left_tokens=left_tokens,
        sha256=digest,
        masked=True,
        pairs=conversations_per_sample == 2,
    )
    write_atomic(facts_path(file), dump_json(facts))
    tokenizer = file.parent / TOKENIZER_FILE
    if not tokenizer.is_file():
        coder.save(tokenizer)
    return rows_count


def encode(
    coder: Coder,
    chat: ChatTemplate,
    messages: Sequence[dict[str, object]],
    *,
    ends_with_mark: bool = False,
) -> npt.NDArray[np.uint32]:
    """Return the tokens of a conversation; those that are no labels carry NOT_LEARNED."""
    if not messages:
        return np.empty(0, dtype=np.uint32)
    text, spans = chat.spans(messages)
    encoding = coder.model.encode(text, add_special_tokens=False)
    tokens = np.array(encoding.ids, dtype=np.uint32)
    begins = np.array([begin for begin, _ in encoding.offsets], dtype=np.int64)
    learned = np.zeros(len(tokens), dtype=np.bool_)
    for begin, end in spans:
        learned |= (begins >= begin) & (begins < end)
    tokens[~learned] |= NOT_LEARNED
    if ends_with_mark and messages[-1]["role"] == "assistant":
        tokens = np.append(tokens, np.uint32(coder.end_token))
    return tokens


def padded(tokens: npt.NDArray[np.uint32], size: int, end_token: int) -> npt.NDArray[np.uint32]:
    """Return the tokens with end tokens after them that are no labels."""
    row = np.full(size, np.uint32(end_token) | NOT_LEARNED, dtype=np.uint32)
    row[: len(tokens)] = tokens
    return row


@functools.lru_cache(maxsize=4)
def chat_coder(text: str, end_of_text: str) -> Coder:
    """Return the tokenizer, which also encodes the marks of a chat template."""
    coder = parse_coder(text, end_of_text)
    coder.model.encode_special_tokens = False
    return coder


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations(StepSettings):
    """Encode prompts with responses, or chats, for fine-tuning: the replies are the labels."""

    PARTS = (ConversationState,)
    prompt: Annotated[str | None, Doc("column of the user's text")] = None
    response: Annotated[str | None, Doc("column of the assistant's text")] = None
    system: Annotated[str | None, Doc("column of the system message, with prompt")] = None
    messages: Annotated[
        str | None, Doc("column of chats: a list of {role, content}, or its JSON; not with prompt")
    ] = None
    tokenizer: Annotated[
        str | None, Doc("folder of the base model's tokenizer; none: every byte is a token")
    ] = None
    template: Annotated[
        str | None,
        Doc("Jinja chat template; default: the tokenizer's, or prompt and response as they are"),
    ] = None
    sequence_tokens: Annotated[
        int, TOKENS, Doc("tokens per conversation; longer ones are cut at the end")
    ] = 1024
    end_of_text: Annotated[str, Doc("token that pads, and ends texts without a template")] = (
        END_OF_TEXT
    )

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError for columns or settings that do not fit."""
        pair, problems = (self.prompt, self.response), []
        if (self.messages is None) == (None in pair) or (self.messages and any(pair)):
            what = "needs `messages`, or `prompt` and `response`"
            problems.append(Problem(where=where, what=what, fix="name the columns of one of them"))
        if not 2 <= self.sequence_tokens <= MAX_SEQUENCE_TOKENS:
            what = f"{self.sequence_tokens} tokens is out of range"
            fix = f"write 2 to {MAX_SEQUENCE_TOKENS}"
            problems.append(Problem(where=f"{where}: sequence", what=what, fix=fix))
        if problems:
            raise InputError(problems)
        if self.messages is not None:
            columns.select((self.messages,), ALL_KINDS, where)
        texts = [name for name in (self.system, *pair) if name is not None]
        columns.select(texts, ("text",), where)
        self._state()
        return self

    def resolve_paths(self, base: Path) -> Self:
        if self.tokenizer is None:
            return self
        return replace(self, tokenizer=str(base / self.tokenizer))

    def file_contents(self) -> bytes:
        state = self._state()
        return f"{state.tokenizer}{state.template}".encode()

    def fit_state(
        self,
        statistics: Statistics,  # noqa: ARG002
        columns: Columns,  # noqa: ARG002
    ) -> tuple[ConversationState, ...]:
        return (self._state(),)

    def _state(self) -> ConversationState:
        if self.tokenizer is None:
            coder, chat = byte_coder(self.end_of_text), ChatTemplate()
        else:
            folder = Path(self.tokenizer)
            coder, chat = load_coder(folder, self.end_of_text), read_template(folder)
        if self.template is not None:
            chat = replace(chat, text=self.template)
        return ConversationState(
            prompt=self.prompt or "",
            response=self.response or "",
            system=self.system or "",
            messages=self.messages or "",
            tokenizer=coder.model.to_str(pretty=False),
            template=chat.text,
            bos_token=chat.bos_token,
            eos_token=chat.eos_token,
            end_of_text=self.end_of_text,
            sequence_tokens=self.sequence_tokens,
        )
