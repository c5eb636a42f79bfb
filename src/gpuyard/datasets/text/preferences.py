"""Preferences step: prompts with a chosen and a rejected reply, for preference optimisation (DPO).

A pair is one sequence: the chosen conversation, padded, then the rejected one. So rows stay pairs
in every split and order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.batch import Slots
from gpuyard.datasets.columns import ALL_KINDS, Columns
from gpuyard.datasets.step import Operation, Statistics, StepSettings
from gpuyard.datasets.text.chat_template import PLAIN
from gpuyard.datasets.text.conversations import (
    BLOCK_ROWS,
    Conversations,
    ConversationState,
    chat_coder,
    encode,
    padded,
)
from gpuyard.datasets.text.tokenizer import END_OF_TEXT, TOKENIZER_FILE
from gpuyard.datasets.text.tokens import (
    MAX_SEQUENCE_TOKENS,
    NOT_LEARNED,
    ShardFacts,
    facts_path,
    write_blocks,
)
from gpuyard.document.encode import dump_json
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.home import write_atomic
from gpuyard.units import TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceState:
    """How the chosen conversation is read, and the column of the rejected reply."""

    chosen: ConversationState
    rejected: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.chosen.reads, self.rejected)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return nothing: the writer encodes."""
        return ()

    def after(self, columns: Columns) -> Columns:
        dropped = [name for name in columns.names if name not in self.reads]
        return columns.with_columns({}, drop=dropped)

    def numpy_operation(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Return an operation that does nothing: servers render chats with the same template."""
        return lambda batch: None  # noqa: ARG005

    def writer(self) -> PreferenceWriter:
        return PreferenceWriter(part=self)

    @property
    def sides(self) -> tuple[ConversationState, ConversationState]:
        """How the chosen and the rejected conversation are read."""
        chosen = self.chosen
        if chosen.messages:
            return chosen, replace(chosen, messages=self.rejected)
        return chosen, replace(chosen, response=self.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceWriter:
    """Writes the pairs of a partition and split as one shard with a mask."""

    kind: ClassVar[Literal["tokens"]] = "tokens"
    suffix: ClassVar[str] = ".bin"
    part: PreferenceState

    @property
    def sequence_tokens(self) -> int:
        return 2 * self.part.chosen.sequence_tokens

    def write(self, frame: pl.DataFrame, path: str) -> int:
        part, file = self.part.chosen, Path(path)
        coder = chat_coder(part.tokenizer, part.end_of_text)
        chat, is_plain, size = part.chat, part.template == PLAIN, part.sequence_tokens
        pairs_count = rows_count = in_tokens = left_tokens = 0

        def blocks() -> Iterator[bytes]:
            nonlocal pairs_count, rows_count, in_tokens, left_tokens
            for start in range(0, frame.height, BLOCK_ROWS):
                some = frame.slice(start, BLOCK_ROWS)
                rows: list[npt.NDArray[np.uint32]] = []
                both = [side.conversations(some) for side in self.part.sides]
                for pair in zip(*both, strict=True):
                    tokens = [
                        encode(coder, chat, messages, ends_with_mark=is_plain) for messages in pair
                    ]
                    pairs_count += 1
                    in_tokens += sum(len(reply) for reply in tokens)
                    left_tokens += sum(max(0, len(reply) - size) for reply in tokens)
                    cuts = [reply[:size] for reply in tokens]
                    if all((cut[1:] < NOT_LEARNED).any() for cut in cuts):
                        rows.append(
                            np.concatenate([padded(cut, size, coder.end_token) for cut in cuts])
                        )
                rows_count += len(rows)
                yield b"".join(row.astype("<u4").tobytes() for row in rows)

        digest = write_blocks(blocks(), file)
        facts = ShardFacts(
            sequences_count=rows_count,
            sequence_tokens=self.sequence_tokens,
            dtype="uint32",
            vocabulary_count=coder.vocabulary_count,
            end_token=coder.end_token,
            texts_count=rows_count,
            empty_count=pairs_count - rows_count,  # without two replies within the sequence
            in_tokens=in_tokens,
            packed_tokens=rows_count * self.sequence_tokens,
            left_tokens=left_tokens,
            sha256=digest,
            masked=True,
            pairs=True,
        )
        write_atomic(facts_path(file), dump_json(facts))
        tokenizer = file.parent / TOKENIZER_FILE
        if not tokenizer.is_file():
            coder.save(tokenizer)
        return rows_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences(StepSettings):
    """Encode prompts with a chosen and a rejected reply, for preference optimisation (DPO)."""

    PARTS = (PreferenceState,)
    chosen: Annotated[
        str, Doc("column of the preferred reply; without prompt: of whole chats with it at the end")
    ]
    rejected: Annotated[str, Doc("column of the other reply, or of chats that end with it")]
    prompt: Annotated[str | None, Doc("column of the user's text")] = None
    system: Annotated[str | None, Doc("column of the system message, with prompt")] = None
    tokenizer: Annotated[
        str | None, Doc("folder of the base model's tokenizer; none: every byte is a token")
    ] = None
    template: Annotated[
        str | None,
        Doc("Jinja chat template; default: the tokenizer's, or prompt and reply as they are"),
    ] = None
    sequence_tokens: Annotated[
        int, TOKENS, Doc("tokens per conversation; longer ones are cut at the end")
    ] = 1024
    end_of_text: Annotated[str, Doc("token that pads, and ends texts without a template")] = (
        END_OF_TEXT
    )

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError for columns or settings that do not fit."""
        if self.chosen == self.rejected:
            raise InputError.one(where, "chosen and rejected are one column", "name two columns")
        if 2 * self.sequence_tokens > MAX_SEQUENCE_TOKENS:
            what = f"{self.sequence_tokens} tokens is out of range"
            raise InputError.one(
                f"{where}: sequence", what, f"write at most {MAX_SEQUENCE_TOKENS // 2}"
            )
        self._chosen.bind(columns, where)
        kinds = ALL_KINDS if self.prompt is None else ("text",)
        columns.select((self.rejected,), kinds, where)
        return self

    def resolve_paths(self, base: Path) -> Self:
        if self.tokenizer is None:
            return self
        return replace(self, tokenizer=str(base / self.tokenizer))

    def file_contents(self) -> bytes:
        return self._chosen.file_contents()

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[PreferenceState, ...]:
        (chosen,) = self._chosen.fit_state(statistics, columns)
        return (PreferenceState(chosen=chosen, rejected=self.rejected),)

    @property
    def _chosen(self) -> Conversations:
        is_chat = self.prompt is None
        return Conversations(
            prompt=self.prompt,
            response=None if is_chat else self.chosen,
            messages=self.chosen if is_chat else None,
            system=self.system,
            tokenizer=self.tokenizer,
            template=self.template,
            sequence_tokens=self.sequence_tokens,
            end_of_text=self.end_of_text,
        )
