"""Reader of packed tokens: sequences over several files, memory mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.tokenizer import TOKENIZER_FILE
from gpuyard.datasets.text.tokens import NOT_LEARNED, ShardFacts, facts_path
from gpuyard.document.encode import load_json_file
from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTotals:
    """Totals of all shards: in_tokens = packed_tokens + left_tokens."""

    texts_count: int
    empty_count: int
    in_tokens: int
    packed_tokens: int
    left_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShards:
    """Packed sequences over several files: `shards[rows]` is [rows, sequence_tokens]."""

    files: tuple[Path, ...]
    facts: tuple[ShardFacts, ...]
    tokenizer: Path  # file that decodes the tokens
    arrays: tuple[npt.NDArray[np.uint16] | npt.NDArray[np.uint32], ...]
    begins: npt.NDArray[np.int64]  # first sequence of every file, and the total

    def __len__(self) -> int:
        return int(self.begins[-1])

    def __getitem__(
        self, rows: int | slice | Sequence[int] | npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the sequences as 64-bit integers; a single index returns one sequence."""
        out = self._stored(rows)
        return out & ~np.int64(NOT_LEARNED) if self.masked else out

    def learned(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which tokens of the sequences are labels: all of them in shards without masks."""
        out = self._stored(rows)
        labels: npt.NDArray[np.bool_] = out & np.int64(NOT_LEARNED) == 0
        return labels

    def _stored(
        self, rows: int | slice | Sequence[int] | npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        if isinstance(rows, slice):
            indices = np.arange(len(self))[rows]
        else:
            indices = np.atleast_1d(np.asarray(rows, np.int64))
        indices = np.where(indices < 0, indices + len(self), indices)
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self)):
            raise IndexError(f"sequence {int(indices.max())} of {len(self)}")
        out = np.empty((len(indices), self.sequence_tokens), dtype=np.int64)
        files = np.searchsorted(self.begins, indices, side="right") - 1
        for file in np.unique(files):
            in_file = files == file
            out[in_file] = self.arrays[file][indices[in_file] - self.begins[file]]
        return out[0] if isinstance(rows, int | np.integer) else out

    @property
    def totals(self) -> TokenTotals:
        return TokenTotals(
            texts_count=sum(fact.texts_count for fact in self.facts),
            empty_count=sum(fact.empty_count for fact in self.facts),
            in_tokens=sum(fact.in_tokens for fact in self.facts),
            packed_tokens=sum(fact.packed_tokens for fact in self.facts),
            left_tokens=sum(fact.left_tokens for fact in self.facts),
        )

    @property
    def sequence_tokens(self) -> int:
        return self.facts[0].sequence_tokens

    @property
    def masked(self) -> bool:
        """Whether only some of the tokens are labels, as of conversations."""
        return self.facts[0].masked

    @property
    def pairs(self) -> bool:
        """Whether a sequence is a chosen conversation and a rejected one."""
        return self.facts[0].pairs

    @property
    def vocabulary_count(self) -> int:
        """Size of the vocabulary; every token is below it."""
        return self.facts[0].vocabulary_count

    @property
    def end_token(self) -> int:
        """Token after every text."""
        return self.facts[0].end_token

    def texts_of(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the index of every token's text in its sequence, for attention masks."""
        ends = (sequences == self.end_token).astype(np.int64)
        texts: npt.NDArray[np.int64] = np.cumsum(ends, axis=-1) - ends  # the end is in its text
        return texts


def read_tokens(files: Sequence[Path]) -> TokenShards:
    """Open shards; raise InputError where one is missing, truncated or packed differently."""
    facts = tuple(_facts(file) for file in files)
    if not facts:
        raise InputError.one("tokens", "there are no shards", "pack a corpus first")
    shapes = {
        (
            fact.sequence_tokens,
            fact.dtype,
            fact.vocabulary_count,
            fact.end_token,
            fact.masked,
            fact.pairs,
        )
        for fact in facts
    }
    if len(shapes) > 1:
        raise InputError.one(
            str(files[0].parent), "its shards were packed differently", "pack the corpus again"
        )
    return TokenShards(
        files=tuple(files),
        facts=facts,
        tokenizer=files[0].parent / TOKENIZER_FILE,
        arrays=tuple(_mapped(file, fact) for file, fact in zip(files, facts, strict=True)),
        begins=np.cumsum([0, *(fact.sequences_count for fact in facts)], dtype=np.int64),
    )


def _facts(file: Path) -> ShardFacts:
    path = facts_path(file)
    if not path.is_file() or not file.is_file():
        raise InputError.one(str(file), "no such shard of tokens", "pack the corpus again")
    facts = load_json_file(path, ShardFacts)
    expected_bytes = facts.packed_tokens * np.dtype(facts.dtype).itemsize
    if file.stat().st_size != expected_bytes:
        what = f"has {file.stat().st_size} bytes instead of {expected_bytes}"
        raise InputError.one(str(file), what, "copy it again, or pack the corpus again")
    return facts


def _mapped(file: Path, facts: ShardFacts) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    shape = (facts.sequences_count, facts.sequence_tokens)
    if not facts.sequences_count:  # an empty file cannot be mapped
        return np.empty(shape, dtype=facts.dtype)
    return np.memmap(file, dtype=np.dtype(facts.dtype).newbyteorder("<"), mode="r", shape=shape)
