"""Preferences step: prompts with a chosen and a rejected reply, for preference optimisation (DPO).

A pair is one sequence: the chosen conversation, padded, then the rejected one. So rows stay pairs
in every split and order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import polars as pl

from gpuyard.datasets.batch import Slots
from gpuyard.datasets.columns import ALL_KINDS, Columns
from gpuyard.datasets.step import Operation, Statistics, StepSettings
from gpuyard.datasets.text.conversations import (
    Conversations,
    ConversationState,
    Messages,
    write_samples,
)
from gpuyard.datasets.text.tokenizer import END_OF_TEXT
from gpuyard.datasets.text.tokens import (
    MAX_SEQUENCE_TOKENS,
)
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
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
        def pairs(block: pl.DataFrame) -> Iterator[tuple[Messages, ...]]:
            return zip(*(side.conversations(block) for side in self.part.sides), strict=True)

        part = self.part.chosen
        return write_samples(part, frame, Path(path), pairs, conversations_per_sample=2)


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
