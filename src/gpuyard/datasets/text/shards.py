"""Reading packed tokens: sequences over several files, memory mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.tokenizer import TOKENIZER_FILE
from gpuyard.datasets.text.tokens import ShardFacts, facts_path
from gpuyard.document import load_json
from gpuyard.errors import InputError

__all__ = ["TokenShards", "TokenTotals", "read_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTotals:
    """What all shards hold together: in = packed + left."""

    texts_count: int
    empty_count: int
    in_tokens: int
    packed_tokens: int
    left_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShards:
    """Packed sequences over several files, memory mapped: `shards[rows]` is [rows, sequence_tokens]."""

    files: tuple[Path, ...]
    facts: tuple[ShardFacts, ...]
    tokenizer: Path  # the file that gives the tokens their texts
    arrays: tuple[npt.NDArray[np.uint16] | npt.NDArray[np.uint32], ...]
    begins: npt.NDArray[np.int64]  # of every file, and the end of the last

    def __len__(self) -> int:
        return int(self.begins[-1])

    def __getitem__(self, rows: int | slice | Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sequences as 64-bit integers, which every framework takes; one number gives one sequence."""
        wanted = np.arange(len(self))[rows] if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows, np.int64))
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"sequence {int(wanted.max())} of {len(self)}")
        out = np.empty((len(wanted), self.sequence_tokens), dtype=np.int64)
        homes = np.searchsorted(self.begins, wanted, side="right") - 1
        for home in np.unique(homes):
            here = homes == home
            out[here] = self.arrays[home][wanted[here] - self.begins[home]]
        return out[0] if isinstance(rows, int | np.integer) else out

    @property
    def totals(self) -> TokenTotals:
        """Texts and tokens of all shards."""
        return TokenTotals(
            texts_count=sum(fact.texts_count for fact in self.facts),
            empty_count=sum(fact.empty_count for fact in self.facts),
            in_tokens=sum(fact.in_tokens for fact in self.facts),
            packed_tokens=sum(fact.packed_tokens for fact in self.facts),
            left_tokens=sum(fact.left_tokens for fact in self.facts),
        )

    @property
    def sequence_tokens(self) -> int:
        """Tokens of every sequence."""
        return self.facts[0].sequence_tokens

    @property
    def vocabulary_count(self) -> int:
        """Every token is below it."""
        return self.facts[0].vocabulary_count

    @property
    def end_token(self) -> int:
        """The token after every text."""
        return self.facts[0].end_token

    def texts_of(self, sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """For every token the number of its text within the sequence, for attention that stays inside a text."""
        ends = (sequences == self.end_token).astype(np.int64)
        number: npt.NDArray[np.int64] = np.cumsum(ends, axis=-1) - ends  # the end belongs to its text
        return number


def read_tokens(files: Sequence[Path]) -> TokenShards:
    """The shards for reading; InputError where one is missing, cut short or packed differently from the others."""
    found = tuple(_facts(file) for file in files)
    if not found:
        raise InputError.one("tokens", "there are no shards", "pack a corpus first")
    shapes = {(fact.sequence_tokens, fact.dtype, fact.vocabulary_count, fact.end_token) for fact in found}
    if len(shapes) > 1:
        raise InputError.one(str(files[0].parent), "its shards were packed differently", "pack the corpus again")
    arrays = tuple(_mapped(file, fact) for file, fact in zip(files, found, strict=True))
    begins = np.concatenate([[0], np.cumsum([fact.sequences_count for fact in found])]).astype(np.int64)
    tokenizer = files[0].parent / TOKENIZER_FILE
    return TokenShards(files=tuple(files), facts=found, tokenizer=tokenizer, arrays=arrays, begins=begins)


def _facts(file: Path) -> ShardFacts:
    """The facts of one shard, whose file has the right size."""
    beside = facts_path(file)
    if not beside.is_file() or not file.is_file():
        raise InputError.one(str(file), "no such shard of tokens", "pack the corpus again")
    facts = load_json(beside.read_text(encoding="utf-8"), ShardFacts, str(beside))
    want_bytes = facts.packed_tokens * np.dtype(facts.dtype).itemsize
    if file.stat().st_size != want_bytes:
        what = f"has {file.stat().st_size} bytes where {want_bytes} were written"
        raise InputError.one(str(file), what, "copy it again, or pack the corpus again")
    return facts


def _mapped(file: Path, facts: ShardFacts) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    """The file as an array that the system reads when it is looked at."""
    shape = (facts.sequences_count, facts.sequence_tokens)
    if not facts.sequences_count:  # an empty file cannot be mapped
        return np.empty(shape, dtype=facts.dtype)
    return np.memmap(file, dtype=np.dtype(facts.dtype).newbyteorder("<"), mode="r", shape=shape)
