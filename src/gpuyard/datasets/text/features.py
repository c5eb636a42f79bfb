"""Text features: n-grams hashed into buckets, and TF-IDF weights of frequent terms.

The same compiled loops serve a partition and the rows of a request, so their results are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.words import Hashes, flatten_texts, lower_case_table

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCounts:
    """Number of texts in which every term occurs (document frequency)."""

    texts_count: int
    terms: tuple[str, ...]  # sorted
    counts: tuple[int, ...]

    def merge(self, other: TermCounts) -> TermCounts:
        total = dict(zip(self.terms, self.counts, strict=True))
        for term, count in zip(other.terms, other.counts, strict=True):
            total[term] = total.get(term, 0) + count
        return _sorted_counts(total, self.texts_count + other.texts_count)

    def most_frequent(self, limit: int, least_texts: int = 1) -> tuple[tuple[str, int], ...]:
        """Return at most `limit` terms that occur in at least `least_texts` texts, sorted."""
        pairs = [
            pair for pair in zip(self.terms, self.counts, strict=True) if pair[1] >= least_texts
        ]
        pairs.sort(key=lambda pair: (-pair[1], pair[0]))
        return tuple(sorted(pairs[:limit]))


def _sorted_counts(counts: dict[str, int], texts_count: int) -> TermCounts:
    terms = tuple(sorted(counts))
    return TermCounts(
        texts_count=texts_count, terms=terms, counts=tuple(counts[term] for term in terms)
    )


def count_terms(texts: Sequence[str | None], words: int = 1) -> TermCounts:
    """Count the texts of each term of one to `words` words; a missing text has no words."""
    from gpuyard.datasets.text.features_kernel import distinct_terms  # imports Numba

    data, offsets = flatten_texts(texts)
    hashes, starts, ends = distinct_terms(data, offsets, lower_case_table(), words)
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    raw = data.tobytes()
    total: dict[str, int] = {}
    for index, count in zip(first.tolist(), counts.tolist(), strict=True):
        term = _normalised(raw[starts[index] : ends[index]].decode("utf-8", "surrogatepass"))
        total[term] = total.get(term, 0) + count
    return _sorted_counts(total, len(texts))


def _normalised(piece: str) -> str:
    """Return the words of a piece of text as a term: lower case, one space between words."""
    table = lower_case_table()
    letters = [table[ord(letter)] if ord(letter) < len(table) else ord(letter) for letter in piece]
    return " ".join("".join(chr(code) if code else " " for code in letters).split())


def inverse_frequencies(counts: Sequence[int], texts_count: int) -> tuple[float, ...]:
    """Return ln((1 + n) / (1 + df)) + 1: the smoothed form, in which every weight is positive."""
    frequencies = np.asarray(counts, dtype=np.float64)
    return tuple((np.log((1 + texts_count) / (1 + frequencies)) + 1).tolist())


def term_hashes(terms: Sequence[str], words: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return the sorted hashes of the terms, and the index of the term of each."""
    from gpuyard.datasets.text.words_kernel import hash_text, ngram_hashes  # imports Numba

    data, offsets = flatten_texts(terms)
    table = lower_case_table()
    hashes = np.empty(len(terms), dtype=np.uint64)
    size = int(np.max(np.diff(offsets), initial=0)) + 1
    pieces, runs = np.empty(size, np.uint64), np.empty(size, np.uint64)
    places = np.empty(size, np.int64)
    for index in range(len(terms)):
        start, end = int(offsets[index]), int(offsets[index + 1])
        count = hash_text(data, start, end, table, True, pieces, places)
        ngram_hashes(pieces, count, min(max(count, 1), words), runs)
        hashes[index] = runs[0]
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.int64)


def tfidf_features(
    texts: Sequence[str | None],
    words: int,
    hashes: Hashes,
    order: npt.NDArray[np.int64],
    weights: Weights,
) -> Weights:
    """Return term counts times `weights` (in order of the terms), rows scaled to unit length."""
    from gpuyard.datasets.text.features_kernel import add_weights  # imports Numba

    data, offsets = flatten_texts(texts)
    out = np.zeros((len(texts), len(weights)))
    add_weights(data, offsets, lower_case_table(), words, hashes, order, weights, out)
    return out


def hash_features(
    texts: Sequence[str | None], words: int, buckets: int, *, by_word: bool = True
) -> Weights:
    """Return signed bucket counts of n-grams up to `words`, rows scaled to unit length."""
    from gpuyard.datasets.text.features_kernel import add_signs  # imports Numba

    data, offsets = flatten_texts(texts)
    out = np.zeros((len(texts), buckets))
    add_signs(data, offsets, lower_case_table(), words, by_word, out)
    return out
