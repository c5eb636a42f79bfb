"""Text steps: near-duplicate removal, hashed word features, TF-IDF."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import ColumnRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import (
    Operation,
    StatelessStep,
    Statistics,
    StatRequest,
    StepSettings,
)
from gpuyard.datasets.text.features import (
    TermCounts,
    Weights,
    count_terms,
    hash_features,
    inverse_frequencies,
    term_hashes,
    tfidf_features,
)
from gpuyard.datasets.text.minhash import (
    Banding,
    Shingles,
    band_keys,
    banding_for,
    candidate_texts,
    match_candidates,
)
from gpuyard.datasets.text.words import flatten_texts, lower_case_table
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, Problem

MAX_NGRAM = 8
MAX_COLUMNS = 65_536

Featurizer = Callable[[Sequence[str | None]], Weights]


def _check_ranges(where: str, ranges: Sequence[tuple[str, float, float, float]]) -> None:
    """Raise InputError for every (name, value, low, high) that is out of range."""
    problems = [
        Problem(
            where=f"{where}: {name}",
            what=f"{value:g} is out of range",
            fix=f"write {low:g} to {high:g}",
        )
        for name, value, low, high in ranges
        if not low <= value <= high
    ]
    if problems:
        raise InputError(problems)


def _check_new_columns(where: str, names: Sequence[str], columns: Columns) -> None:
    if taken := [name for name in names if columns.get(name) is not None]:
        what = f'it adds a column "{taken[0]}", which already exists'
        raise InputError.one(where, what, "drop or rename that column first")


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicates(StatelessStep):
    """Keep the first of nearly equal texts: Jaccard similarity of shingles, found by MinHash."""

    USES_JIT = True
    column: Annotated[str, Doc("the text")] = "text"
    threshold: Annotated[float, Doc("minimum similarity of duplicates, 0.05 to 1")] = 0.8
    unit: Annotated[Literal["word", "character"], Doc("unit of shingles")] = "word"
    width: Annotated[int, Doc("units per shingle")] = 5
    permutations: Annotated[
        int, Doc("hashes per text; more find more of the pairs at the threshold")
    ] = 128
    recall: Annotated[float, Doc("fraction of pairs at the threshold that must be compared")] = 0.95
    seed: Annotated[int, Doc("of the permutations")] = 0

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError unless the column holds text."""
        columns.select((self.column,), ("text",), where)
        self._banding()
        _check_ranges(where, [("width", self.width, 1, 64), ("seed", self.seed, 0, 2**63)])
        return self

    def _banding(self) -> Banding:
        return banding_for(self.threshold, permutations=self.permutations, recall_ratio=self.recall)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        from gpuyard.datasets.text.words_kernel import shingle_sets  # imports Numba

        data, offsets = flatten_texts(frame[self.column].to_list())
        shingles = Shingles(unit=self.unit, width=self.width)
        keys, _ = band_keys(data, offsets, shingles, self._banding(), self.seed)
        sets, begins = shingle_sets(
            data, offsets, lower_case_table(), self.unit == "word", self.width
        )
        return keys, begins, sets

    def rows_to_drop(
        self,
        marks: Sequence[tuple[np.ndarray, ...]],
        memory_bytes: float,  # noqa: ARG002
    ) -> tuple[np.ndarray, ...]:
        """Return the rows with an earlier duplicate; only shingles of candidates are read."""
        if not marks:
            return ()
        candidates = candidate_texts(
            [mark[0] for mark in marks], [np.diff(mark[1]) for mark in marks]
        )
        ends = np.cumsum([len(mark[0]) for mark in marks])
        partitions = np.searchsorted(ends, candidates, side="right")
        rows = candidates - np.concatenate([[0], ends])[partitions]
        places = [(marks[number], row) for number, row in zip(partitions, rows, strict=True)]
        pieces = [np.asarray(mark[2][mark[1][row] : mark[1][row + 1]]) for mark, row in places]
        begins = np.zeros(len(pieces) + 1, dtype=np.int64)
        np.cumsum([len(piece) for piece in pieces], out=begins[1:])
        sets = np.concatenate([np.empty(0, np.uint64), *pieces])
        keys = np.array([mark[0][row] for mark, row in places], dtype=np.uint64)
        keys = keys.reshape(len(pieces), marks[0][0].shape[1])
        dropped = ~match_candidates(keys, sets, begins, self.threshold).unique
        return tuple(
            rows[dropped & (partitions == number)].astype(np.int64) for number in range(len(marks))
        )


class _TextFeatures:
    """Fitted part that replaces a text by many columns, all computed in one pass."""

    __slots__ = ()
    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def writes(self) -> tuple[str, ...]:
        raise NotImplementedError

    def featurizer(self) -> Featurizer:
        raise NotImplementedError

    def expressions(self) -> tuple[pl.Expr, ...]:
        names, featurize = self.writes, self.featurizer()
        types = dict.fromkeys(names, pl.Float64)

        def run(series: pl.Series) -> pl.Series:
            matrix = featurize(series.to_list())
            return pl.DataFrame(matrix, schema=types).to_struct(series.name)

        features = (
            pl.col(self.column)
            .cast(pl.String)
            .map_batches(run, return_dtype=pl.Struct(types), is_elementwise=True)
        )
        return (features.struct.field(*names),)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.writes, "Float64"), drop=(self.column,))

    def numpy_operation(self, slots: Slots) -> Operation:
        text, at, featurize = slots.text(self.column), slots.numbers(self.writes), self.featurizer()

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = featurize(batch.texts[text])

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class HashWords(_TextFeatures, StatelessStep):
    """Count n-grams in signed hash buckets, every row scaled to unit length."""

    USES_JIT = True
    column: Annotated[str, Doc("the text; it is replaced by its buckets")] = "text"
    buckets: Annotated[int, Doc("number of columns")] = 256
    words: Annotated[int, Doc("longest n-gram: 2 counts words and pairs of words")] = 1
    unit: Annotated[Literal["word", "character"], Doc("unit of n-grams")] = "word"

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError unless the column holds text."""
        columns.select((self.column,), ("text",), where)
        _check_ranges(
            where,
            [("buckets", self.buckets, 1, MAX_COLUMNS), ("words", self.words, 1, MAX_NGRAM)],
        )
        _check_new_columns(where, self.writes, columns)
        return self

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(f"{self.column}_{bucket}" for bucket in range(self.buckets))

    def featurizer(self) -> Featurizer:
        by_word = self.unit == "word"
        return functools.partial(
            hash_features, words=self.words, buckets=self.buckets, by_word=by_word
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCountsRequest(ColumnRequest):
    """Request for the document frequency of every term of a column."""

    words: int

    def collect(self, frame: pl.DataFrame) -> TermCounts:
        return count_terms(frame[self.column].cast(pl.String).to_list(), self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermWeights(_TextFeatures):
    """Terms and their weights; words that the training rows do not have weigh nothing."""

    column: str
    words: int
    terms: tuple[str, ...]
    weights: tuple[float, ...]

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(f"{self.column}_{term}" for term in self.terms)

    def featurizer(self) -> Featurizer:
        hashes, order = term_hashes(self.terms, self.words)
        return functools.partial(
            tfidf_features,
            words=self.words,
            hashes=hashes,
            order=order,
            weights=np.array(self.weights),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tfidf(StepSettings):
    """TF-IDF of the most frequent terms: count × (ln((1 + n) / (1 + df)) + 1), unit length."""

    PARTS = (TermWeights,)
    USES_JIT = True
    column: Annotated[str, Doc("the text; it is replaced by its weights")] = "text"
    terms: Annotated[int, Doc("maximum number of terms, by document frequency")] = 1000
    words: Annotated[int, Doc("longest term: 2 counts words and pairs of words")] = 1
    least_texts: Annotated[int, Doc("minimum document frequency of a term")] = 2

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError unless the column holds text."""
        columns.select((self.column,), ("text",), where)
        _check_ranges(
            where,
            [
                ("terms", self.terms, 1, MAX_COLUMNS),
                ("words", self.words, 1, MAX_NGRAM),
                ("least_texts", self.least_texts, 1, 2**53),
            ],
        )
        return self

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        return (TermCountsRequest(column=self.column, words=self.words),)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[TermWeights, ...]:
        counts = cast(TermCounts, statistics[self.requests(columns)[0]])
        frequent = counts.most_frequent(self.terms, self.least_texts)
        if not frequent:
            what = f'no word occurs in {self.least_texts} texts of column "{self.column}"'
            raise InputError.one("tfidf", what, "lower least_texts, or remove the step")
        part = TermWeights(
            column=self.column,
            words=self.words,
            terms=tuple(term for term, _ in frequent),
            weights=inverse_frequencies([count for _, count in frequent], counts.texts_count),
        )
        _check_new_columns("tfidf", part.writes, columns)
        return (part,)
