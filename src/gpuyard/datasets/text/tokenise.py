"""The step that packs a corpus for language models: its tokenizer, fitted where asked, and the writer of shards."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, cast

import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import ROW, Found, Need, Operation
from gpuyard.datasets.text.tokenizer import (
    END_OF_TEXT,
    TOKENIZER_FILE,
    Coder,
    byte_coder,
    coder_of,
    open_coder,
    train_coder,
)
from gpuyard.datasets.text.tokens import write_shard
from gpuyard.document import Doc
from gpuyard.errors import InputError
from gpuyard.units import TOKENS

__all__ = ["TextSample", "TextSampleNeed", "TokenWriter", "Tokenise", "Tokens"]

SAMPLE_CHARACTERS = 64_000_000  # that a tokenizer is trained on; more changes few of its merges


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """The first texts of the training rows, up to a number of characters."""

    texts: tuple[str, ...]

    def merged(self, other: TextSample) -> TextSample:
        """The texts of both, up to the same number."""
        return TextSample(texts=_up_to((*self.texts, *other.texts), SAMPLE_CHARACTERS))


def _up_to(texts: tuple[str, ...], characters: int) -> tuple[str, ...]:
    """The first texts, up to so many characters."""
    seen = 0
    for index, text in enumerate(texts):
        if seen + len(text) >= characters:
            return (*texts[:index], text[: characters - seen])
        seen += len(text)
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSampleNeed:
    """Asks for texts to train a tokenizer on."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def collect(self, frame: pl.DataFrame) -> TextSample:
        """The first texts of a partition; the later it comes, the fewer, so that all of them fit in memory."""
        limit = SAMPLE_CHARACTERS
        if ROW in frame.columns and frame.height:
            first, last = int(frame[ROW][0]), int(frame[ROW][-1])
            limit //= 1 + first // (last - first + 1)  # about the number of partitions before it
        return TextSample(texts=_up_to(tuple(frame[self.column].cast(pl.String).drop_nulls()), limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenise:
    """Encodes the texts, joins them with an end token after each, and cuts the stream into sequences."""

    column: Annotated[str, Doc("the text")] = "text"
    tokenizer: Annotated[str | None, Doc("a tokenizer.json or its folder; none: every byte is a token")] = None
    vocabulary: Annotated[int | None, Doc("train a byte-level BPE of so many tokens on the training texts")] = None
    sequence_tokens: Annotated[int, TOKENS, Doc("of every sequence")] = 1024
    end_of_text: Annotated[str, Doc("the token after every text")] = END_OF_TEXT

    def bound(self, columns: Columns, where: str) -> Self:
        """The column must hold text; at most one way to a tokenizer."""
        columns.chosen((self.column,), ("text",), where)
        if self.tokenizer is not None and self.vocabulary is not None:
            raise InputError.one(where, "both `tokenizer` and `vocabulary` are given", "load one, or train one")
        if not 2 <= self.sequence_tokens <= 1 << 24:
            what = f"{self.sequence_tokens} tokens are no sequence"
            raise InputError.one(f"{where}: sequence", what, f"write 2 to {1 << 24}")
        if not self.end_of_text:
            raise InputError.one(f"{where}: end_of_text", "is empty", f'write a token such as "{END_OF_TEXT}"')
        if self.tokenizer is not None:
            open_coder(Path(self.tokenizer), self.end_of_text)
        return self

    def at(self, base: Path) -> Self:
        """With the place of its file spelt out; relative ones start from `base`."""
        return self if self.tokenizer is None else replace(self, tokenizer=str(base / self.tokenizer))

    def contents(self) -> bytes:
        """What its file says, for the version of what is made with it; nothing where it has none."""
        return (
            b""
            if self.tokenizer is None
            else open_coder(Path(self.tokenizer), self.end_of_text).model.to_str().encode()
        )

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Texts, if a tokenizer is to be trained."""
        return () if self.vocabulary is None else (TextSampleNeed(column=self.column),)

    def fitted(self, found: Found, columns: Columns) -> tuple[Tokens, ...]:
        """With the tokenizer itself."""
        if self.tokenizer is not None:
            coder = open_coder(Path(self.tokenizer), self.end_of_text)
        elif self.vocabulary is not None:
            sample = cast(TextSample, found[self.needs(columns)[0]])
            coder = train_coder([sample.texts], self.vocabulary, self.end_of_text)
        else:
            coder = byte_coder(self.end_of_text)
        return (
            Tokens(
                column=self.column,
                tokenizer=coder.model.to_str(pretty=False),
                sequence_tokens=self.sequence_tokens,
                end_of_text=self.end_of_text,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokenizer, as the contents of its file, and how its tokens are packed."""

    column: str
    tokenizer: str
    sequence_tokens: int
    end_of_text: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The text."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """None: the writer encodes."""
        return ()

    def after(self, columns: Columns) -> Columns:
        """The text alone."""
        return columns.changed({}, removed=[name for name in columns.names if name != self.column])

    def compiled(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Nothing: a language server encodes by the tokenizer that the model carries."""

        def run(batch: Batch) -> None:
            """Leaves the rows as they are."""

        return run

    def writer(self) -> TokenWriter:
        """What writes the shards."""
        return TokenWriter(part=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWriter:
    """Packs the texts of a partition and split into one shard, with the tokenizer beside it."""

    kind: ClassVar[Literal["tokens"]] = "tokens"
    suffix: ClassVar[str] = ".bin"
    part: Tokens

    @property
    def sequence_tokens(self) -> int:
        """Tokens of every sequence."""
        return self.part.sequence_tokens

    def write(self, frame: pl.DataFrame, path: str) -> int:
        """Writes the shard; gives how many sequences it holds."""
        coder, file = _coder(self.part.tokenizer, self.part.end_of_text), Path(path)
        texts = frame[self.part.column].cast(pl.String)
        batches = (texts.slice(start, 4096).to_list() for start in range(0, len(texts), 4096))
        facts = write_shard(batches, coder, self.part.sequence_tokens, file)
        if not (beside := file.parent / TOKENIZER_FILE).is_file():
            coder.save(beside)
        return facts.sequences_count


@functools.lru_cache(maxsize=4)
def _coder(text: str, end_of_text: str) -> Coder:
    """The tokenizer, parsed once a process."""
    return coder_of(text, end_of_text)
