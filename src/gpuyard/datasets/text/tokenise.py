"""Tokenise step: encode texts with a tokenizer and pack them for language models."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, cast

import polars as pl

from gpuyard.datasets.aggregates import ColumnRequest
from gpuyard.datasets.batch import Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import ROW, ColumnPart, Operation, Statistics, StatRequest, StepSettings
from gpuyard.datasets.text.tokenizer import (
    END_OF_TEXT,
    TOKENIZER_FILE,
    Coder,
    byte_coder,
    load_coder,
    parse_coder,
    train_coder,
)
from gpuyard.datasets.text.tokens import MAX_SEQUENCE_TOKENS, write_shard
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.units import TOKENS

SAMPLE_CHARACTERS = 64_000_000  # to train a tokenizer on; more changes few of its merges
_BATCH_ROWS = 256  # texts encoded at once


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """First texts of the training rows, up to SAMPLE_CHARACTERS."""

    texts: tuple[str, ...]

    def merge(self, other: TextSample) -> TextSample:
        return TextSample(texts=_truncated((*self.texts, *other.texts), SAMPLE_CHARACTERS))


def _truncated(texts: tuple[str, ...], characters: int) -> tuple[str, ...]:
    seen = 0
    for index, text in enumerate(texts):
        if seen + len(text) >= characters:
            return (*texts[:index], text[: characters - seen])
        seen += len(text)
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSampleRequest(ColumnRequest):
    """Request for texts to train a tokenizer on."""

    def collect(self, frame: pl.DataFrame) -> TextSample:
        """Return the first texts of a partition; fewer for later ones, to fit in memory."""
        limit = SAMPLE_CHARACTERS
        if ROW in frame.columns and frame.height:
            first, last = int(frame[ROW][0]), int(frame[ROW][-1])
            limit //= 1 + first // (last - first + 1)  # about the number of partitions before it
        texts = tuple(frame[self.column].cast(pl.String).drop_nulls())
        return TextSample(texts=_truncated(texts, limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerState(ColumnPart):
    """Contents of the tokenizer file, and how its tokens are packed."""

    tokenizer: str
    sequence_tokens: int
    end_of_text: str

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return nothing: the writer encodes."""
        return ()

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(
            {}, drop=[name for name in columns.names if name != self.column]
        )

    def numpy_operation(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Return an operation that does nothing: LLM servers encode with the model's tokenizer."""
        return lambda batch: None  # noqa: ARG005

    def writer(self) -> TokenWriter:
        return TokenWriter(part=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWriter:
    """Packs the texts of a partition and split into one shard, with the tokenizer next to it."""

    kind: ClassVar[Literal["tokens"]] = "tokens"
    suffix: ClassVar[str] = ".bin"
    part: TokenizerState

    @property
    def sequence_tokens(self) -> int:
        return self.part.sequence_tokens

    def write(self, frame: pl.DataFrame, path: str) -> int:
        coder, file = _cached_coder(self.part.tokenizer, self.part.end_of_text), Path(path)
        texts = frame[self.part.column].cast(pl.String)
        batches = (
            texts.slice(start, _BATCH_ROWS).to_list() for start in range(0, len(texts), _BATCH_ROWS)
        )
        facts = write_shard(batches, coder, self.part.sequence_tokens, file)
        tokenizer = file.parent / TOKENIZER_FILE
        if not tokenizer.is_file():
            coder.save(tokenizer)
        return facts.sequences_count


@functools.lru_cache(maxsize=4)
def _cached_coder(text: str, end_of_text: str) -> Coder:
    return parse_coder(text, end_of_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenise(StepSettings):
    """Encode texts, join them with an end token after each, and cut the stream into sequences."""

    PARTS = (TokenizerState,)
    column: Annotated[str, Doc("the text")] = "text"
    tokenizer: Annotated[
        str | None, Doc("a tokenizer.json or its folder; none: every byte is a token")
    ] = None
    vocabulary: Annotated[
        int | None, Doc("train a byte-level BPE with this many tokens on the training texts")
    ] = None
    sequence_tokens: Annotated[int, TOKENS, Doc("tokens per sequence")] = 1024
    end_of_text: Annotated[str, Doc("the token after every text")] = END_OF_TEXT

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError for a wrong column or a wrong tokenizer."""
        columns.select((self.column,), ("text",), where)
        if self.tokenizer is not None and self.vocabulary is not None:
            raise InputError.one(
                where, "both `tokenizer` and `vocabulary` are set", "load one, or train one"
            )
        if not 2 <= self.sequence_tokens <= MAX_SEQUENCE_TOKENS:
            what = f"{self.sequence_tokens} tokens is out of range"
            raise InputError.one(f"{where}: sequence", what, f"write 2 to {MAX_SEQUENCE_TOKENS}")
        if not self.end_of_text:
            raise InputError.one(
                f"{where}: end_of_text", "is empty", f'write a token such as "{END_OF_TEXT}"'
            )
        if self.tokenizer is not None:
            load_coder(Path(self.tokenizer), self.end_of_text)
        return self

    def resolve_paths(self, base: Path) -> Self:
        if self.tokenizer is None:
            return self
        return replace(self, tokenizer=str(base / self.tokenizer))

    def file_contents(self) -> bytes:
        if self.tokenizer is None:
            return b""
        return load_coder(Path(self.tokenizer), self.end_of_text).model.to_str().encode()

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        """Return a sample of texts, if a tokenizer is to be trained."""
        return () if self.vocabulary is None else (TextSampleRequest(column=self.column),)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[TokenizerState, ...]:
        """Return the tokenizer: loaded, trained or of bytes."""
        if self.tokenizer is not None:
            coder = load_coder(Path(self.tokenizer), self.end_of_text)
        elif self.vocabulary is not None:
            sample = cast(TextSample, statistics[self.requests(columns)[0]])
            coder = train_coder([sample.texts], self.vocabulary, self.end_of_text)
        else:
            coder = byte_coder(self.end_of_text)
        return (
            TokenizerState(
                column=self.column,
                tokenizer=coder.model.to_str(pretty=False),
                sequence_tokens=self.sequence_tokens,
                end_of_text=self.end_of_text,
            ),
        )
