"""The steps on texts: near duplicates taken away, words hashed, TF-IDF weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Found, Need, Operation, Unlearned
from gpuyard.datasets.text.features import (
    TermCounts,
    Weights,
    count_terms,
    hashed,
    inverse_frequencies,
    term_hashes,
    weighted,
)
from gpuyard.datasets.text.minhash import Shingles, band_keys, banding_for, find_twins, suspects
from gpuyard.datasets.text.words import flat, folded, shingle_sets
from gpuyard.document import Doc
from gpuyard.errors import InputError, Problem

__all__ = ["HashWords", "NearDuplicates", "TermWeights", "Tfidf"]

_WIDEST = 8
_MOST_COLUMNS = 65_536


def _range(where: str, name: str, value: float, low: float, high: float) -> list[Problem]:
    """A problem if the value is out of range."""
    if low <= value <= high:
        return []
    return [Problem(where=f"{where}: {name}", what=f"{value:g} is out of range", fix=f"write {low:g} to {high:g}")]


def _fresh(where: str, names: Sequence[str], columns: Columns) -> None:
    """Refuses names of new columns that are taken."""
    if taken := [name for name in names if columns.get(name) is not None]:
        what = f'it makes a column "{taken[0]}", and there is one already'
        raise InputError.one(where, what, "drop or rename that column first")


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicates(Unlearned):
    """Keeps the first of texts that are nearly the same: Jaccard similarity of their shingles, found by MinHash."""

    column: Annotated[str, Doc("the text")] = "text"
    threshold: Annotated[float, Doc("the least similarity that makes a duplicate, 0.05 to 1")] = 0.8
    unit: Annotated[Literal["word", "character"], Doc("what shingles are made of")] = "word"
    width: Annotated[int, Doc("how many of them make a shingle")] = 5
    permutations: Annotated[int, Doc("hashes of every text; more find more of the pairs at the threshold")] = 128
    recall: Annotated[float, Doc("the part of pairs at the threshold that must be compared")] = 0.95
    seed: Annotated[int, Doc("of the permutations")] = 0

    def bound(self, columns: Columns, where: str) -> Self:
        """The column must hold text."""
        columns.chosen((self.column,), ("text",), where)
        banding_for(self.threshold, permutations=self.permutations, recall_ratio=self.recall)
        problems = [
            *Shingles(unit=self.unit, width=self.width).problems(where),
            *_range(where, "seed", self.seed, 0, 2**63),
        ]
        if problems:
            raise InputError(problems)
        return self

    @property
    def reads(self) -> tuple[str, ...]:
        """The text."""
        return (self.column,)

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """Band keys [rows, bands], where the shingles of every row begin, and all the shingles."""
        data, offsets = flat(frame[self.column].to_list())
        banding = banding_for(self.threshold, permutations=self.permutations, recall_ratio=self.recall)
        shape = Shingles(unit=self.unit, width=self.width)
        keys, _ = band_keys(data, offsets, shape, banding, self.seed)
        sets, begins = shingle_sets(data, offsets, folded(), self.unit == "word", self.width)
        return keys, begins, sets

    def doomed(self, marks: Sequence[tuple[np.ndarray, ...]], memory_bytes: float) -> tuple[np.ndarray, ...]:  # noqa: ARG002
        """The rows with an earlier twin that is kept; only the shingles of rows that meet another are read."""
        if not marks:
            return ()
        doubtful = suspects([mark[0] for mark in marks], [np.diff(mark[1]) for mark in marks])
        ends = np.cumsum([len(mark[0]) for mark in marks])
        homes = np.searchsorted(ends, doubtful, side="right")
        rows = doubtful - np.concatenate([[0], ends])[homes]
        chosen = [marks[home] for home in homes]
        pieces = [np.asarray(mark[2][mark[1][row] : mark[1][row + 1]]) for mark, row in zip(chosen, rows, strict=True)]
        begins = np.zeros(len(pieces) + 1, dtype=np.int64)
        np.cumsum([len(piece) for piece in pieces], out=begins[1:])
        sets = np.concatenate([np.empty(0, np.uint64), *pieces])
        keys = np.array([mark[0][row] for mark, row in zip(chosen, rows, strict=True)], dtype=np.uint64)
        twins = find_twins(keys.reshape(len(pieces), marks[0][0].shape[1]), sets, begins, self.threshold)
        gone = ~twins.kept
        return tuple(rows[gone & (homes == part)].astype(np.int64) for part in range(len(marks)))


def _made(column: str, names: Sequence[str], make: Callable[[Sequence[str | None]], Weights]) -> pl.Expr:
    """The expression that makes many columns of one text in a single pass."""

    def run(series: pl.Series) -> pl.Series:
        """The columns as one struct."""
        matrix = make(series.to_list())
        return pl.DataFrame(matrix, schema=dict.fromkeys(names, pl.Float64)).to_struct(series.name)

    kind = pl.Struct(dict.fromkeys(names, pl.Float64))
    text = pl.col(column).cast(pl.String)
    return text.map_batches(run, return_dtype=kind, is_elementwise=True).struct.field(*names)


def _operation(
    slots: Slots, column: str, names: tuple[str, ...], make: Callable[[Sequence[str | None]], Weights]
) -> Operation:
    """The same for the rows of a request."""
    text, at = slots.text(column), slots.numbers(names)

    def run(batch: Batch) -> None:
        """Writes the columns."""
        batch.numbers[:, at] = make(batch.texts[text])

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class HashWords(Unlearned):
    """Counts runs of words (or characters) in buckets by their hash, with signs, every row scaled to length one."""

    column: Annotated[str, Doc("the text; it is replaced by its buckets")] = "text"
    buckets: Annotated[int, Doc("how many columns it becomes")] = 256
    words: Annotated[int, Doc("the longest run: 2 counts words and pairs of words")] = 1
    unit: Annotated[Literal["word", "character"], Doc("what runs are made of")] = "word"

    def bound(self, columns: Columns, where: str) -> Self:
        """The column must hold text."""
        columns.chosen((self.column,), ("text",), where)
        problems = [
            *_range(where, "buckets", self.buckets, 1, _MOST_COLUMNS),
            *_range(where, "words", self.words, 1, _WIDEST),
        ]
        if problems:
            raise InputError(problems)
        _fresh(where, self.writes, columns)
        return self

    @property
    def reads(self) -> tuple[str, ...]:
        """The text."""
        return (self.column,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The columns of the buckets."""
        return tuple(f"{self.column}_{bucket}" for bucket in range(self.buckets))

    def _make(self, texts: Sequence[str | None]) -> Weights:
        """The buckets of some texts."""
        return hashed(texts, self.words, self.buckets, by_word=self.unit == "word")

    def expressions(self) -> tuple[pl.Expr, ...]:
        """All buckets by one expression."""
        return (_made(self.column, self.writes, self._make),)

    def after(self, columns: Columns) -> Columns:
        """The buckets in place of the text."""
        return columns.changed(dict.fromkeys(self.writes, "Float64"), removed=(self.column,))

    def compiled(self, slots: Slots) -> Operation:
        """The same for the rows of a request."""
        return _operation(slots, self.column, self.writes, self._make)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCountsNeed:
    """Asks in how many texts of a column every term occurs."""

    column: str
    words: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def collect(self, frame: pl.DataFrame) -> TermCounts:
        """The counts of a partition."""
        return count_terms(frame[self.column].cast(pl.String).to_list(), self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tfidf:
    """Weights of the terms that occur in most texts: count × (ln((1 + n) / (1 + texts with it)) + 1), length one."""

    column: Annotated[str, Doc("the text; it is replaced by its weights")] = "text"
    terms: Annotated[int, Doc("how many terms at most: those of most texts")] = 1000
    words: Annotated[int, Doc("the longest term: 2 counts words and pairs of words")] = 1
    least_texts: Annotated[int, Doc("texts in which a term must occur")] = 2

    def bound(self, columns: Columns, where: str) -> Self:
        """The column must hold text."""
        columns.chosen((self.column,), ("text",), where)
        problems = [
            *_range(where, "terms", self.terms, 1, _MOST_COLUMNS),
            *_range(where, "words", self.words, 1, _WIDEST),
            *_range(where, "least_texts", self.least_texts, 1, 2**53),
        ]
        if problems:
            raise InputError(problems)
        return self

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The texts of every term."""
        return (TermCountsNeed(column=self.column, words=self.words),)

    def fitted(self, found: Found, columns: Columns) -> tuple[TermWeights, ...]:
        """The terms and what they weigh."""
        counts = cast(TermCounts, found[self.needs(columns)[0]])
        chosen = counts.most_frequent(self.terms, self.least_texts)
        if not chosen:
            what = f'no word occurs in {self.least_texts} texts of column "{self.column}"'
            raise InputError.one("tfidf", what, "lower least_texts, or leave the step out")
        weights = inverse_frequencies([count for _, count in chosen], counts.texts_count)
        terms = tuple(term for term, _ in chosen)
        part = TermWeights(column=self.column, words=self.words, terms=terms, weights=weights)
        _fresh("tfidf", part.writes, columns)
        return (part,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermWeights:
    """Terms and their weights; a word that was not seen in training weighs nothing."""

    column: str
    words: int
    terms: tuple[str, ...]
    weights: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The text."""
        return (self.column,)

    @property
    def writes(self) -> tuple[str, ...]:
        """The columns of the terms."""
        return tuple(f"{self.column}_{term}" for term in self.terms)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """All terms by one expression."""
        return (_made(self.column, self.writes, _weigher(self)),)

    def after(self, columns: Columns) -> Columns:
        """The weights in place of the text."""
        return columns.changed(dict.fromkeys(self.writes, "Float64"), removed=(self.column,))

    def compiled(self, slots: Slots) -> Operation:
        """The same for the rows of a request."""
        return _operation(slots, self.column, self.writes, _weigher(self))


def _weigher(part: TermWeights) -> Callable[[Sequence[str | None]], Weights]:
    """The function that weighs texts, with its table of hashes."""
    hashes, order = term_hashes(part.terms, part.words)
    return functools.partial(weighted, words=part.words, hashes=hashes, order=order, weights=np.array(part.weights))
