"""Texts as numbers: words hashed into buckets, and TF-IDF weights of the words that occur in most texts.

One compiled pass serves both a whole partition and the rows of a request, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.datasets.text.words import Bytes, Folds, Hashes, Offsets, flat, folded, grams, hash_text

__all__ = ["TermCounts", "Weights", "count_terms", "hashed", "inverse_frequencies", "term_hashes", "weighted"]

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCounts:
    """In how many texts every term occurs; those of two sets of texts add up."""

    texts_count: int
    terms: tuple[str, ...]  # in order
    counts: tuple[int, ...]

    def merged(self, other: TermCounts) -> TermCounts:
        """The counts of both sets of texts."""
        total = dict(zip(self.terms, self.counts, strict=True))
        for term, count in zip(other.terms, other.counts, strict=True):
            total[term] = total.get(term, 0) + count
        terms = tuple(sorted(total))
        return TermCounts(
            texts_count=self.texts_count + other.texts_count, terms=terms, counts=tuple(total[term] for term in terms)
        )

    def most_frequent(self, limit: int, least_texts: int = 1) -> tuple[tuple[str, int], ...]:
        """The terms of most texts, at most `limit`, each in at least `least_texts`; in order of the terms."""
        pairs = [pair for pair in zip(self.terms, self.counts, strict=True) if pair[1] >= least_texts]
        pairs.sort(key=lambda pair: (-pair[1], pair[0]))
        return tuple(sorted(pairs[:limit]))


def count_terms(texts: Sequence[str | None], words: int = 1) -> TermCounts:
    """The terms of one to `words` words, each counted once a text; missing texts count as texts without words."""
    data, offsets = flat(texts)
    hashes, starts, ends = _distinct_terms(data, offsets, folded(), words)
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    raw = data.tobytes()
    named: dict[str, int] = {}
    for index, count in zip(first.tolist(), counts.tolist(), strict=True):
        term = _spelt(raw[starts[index] : ends[index]].decode("utf-8", "surrogatepass"))
        named[term] = named.get(term, 0) + count
    terms = tuple(sorted(named))
    return TermCounts(texts_count=len(texts), terms=terms, counts=tuple(named[term] for term in terms))


def _spelt(piece: str) -> str:
    """The words of a stretch of text as a term: in lower case, with one blank between them."""
    table = folded()
    letters = [table[ord(letter)] if ord(letter) < len(table) else ord(letter) for letter in piece]
    return " ".join("".join(chr(code) if code else " " for code in letters).split())


def inverse_frequencies(counts: Sequence[int], texts_count: int) -> tuple[float, ...]:
    """ln((1 + texts) / (1 + texts with the term)) + 1: the smooth form, in which no term weighs nothing."""
    return tuple((np.log((1 + texts_count) / (1 + np.asarray(counts, dtype=np.float64))) + 1).tolist())


def term_hashes(terms: Sequence[str], words: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The terms' hashes in ascending order, and which term each is."""
    data, offsets = flat(terms)
    table = folded()
    hashes = np.empty(len(terms), dtype=np.uint64)
    size = int(np.max(np.diff(offsets), initial=0)) + 1
    pieces, places, runs = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.uint64)
    for index in range(len(terms)):
        count = hash_text(data, int(offsets[index]), int(offsets[index + 1]), table, True, pieces, places)
        grams(pieces, count, min(max(count, 1), words), runs)
        hashes[index] = runs[0]
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.int64)


def weighted(
    texts: Sequence[str | None], words: int, hashes: Hashes, order: npt.NDArray[np.int64], weights: Weights
) -> Weights:
    """Term counts times their weights, every row scaled to length one; `weights` are in the order of the terms."""
    data, offsets = flat(texts)
    out = np.zeros((len(texts), len(weights)))
    _weigh(data, offsets, folded(), words, hashes, order, weights, out)
    return out


def hashed(texts: Sequence[str | None], words: int, buckets: int, *, by_word: bool = True) -> Weights:
    """Runs of one to `words` words (or characters) counted in `buckets` with signs, every row scaled to length one."""
    data, offsets = flat(texts)
    out = np.zeros((len(texts), buckets))
    _hash(data, offsets, folded(), words, by_word, out)
    return out


@compiled
def _longest(offsets: Offsets) -> int:
    """Bytes of the longest text."""
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    return longest


@compiled
def _distinct_terms(data: Bytes, offsets: Offsets, folds: Folds, words: int) -> tuple[Hashes, Offsets, Offsets]:
    """The distinct terms of every text and a place where each is written: from a byte to a byte."""
    size = _longest(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    room = max(len(data) // 4, 1024)
    hashes, starts, ends = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    filled = 0
    for text in range(len(offsets) - 1):
        end = offsets[text + 1]
        count = hash_text(data, offsets[text], end, folds, True, pieces, places)
        for width in range(1, min(words, count) + 1):
            runs_count = grams(pieces, count, width, runs)
            order = np.argsort(runs[:runs_count])
            if filled + runs_count > len(hashes):
                room = 2 * len(hashes) + runs_count
                hashes, starts, ends = _grown(hashes, starts, ends, filled, room)
            for index in range(runs_count):
                run = order[index]
                if index == 0 or runs[run] != runs[order[index - 1]]:
                    hashes[filled], starts[filled] = runs[run], places[run]
                    ends[filled] = places[run + width] if run + width < count else end
                    filled += 1
    return hashes[:filled], starts[:filled], ends[:filled]


@compiled
def _grown(hashes: Hashes, starts: Offsets, ends: Offsets, filled: int, room: int) -> tuple[Hashes, Offsets, Offsets]:
    """The three arrays with more room."""
    more, begins, closes = np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64)
    more[:filled], begins[:filled], closes[:filled] = hashes[:filled], starts[:filled], ends[:filled]
    return more, begins, closes


@compiled
def _weigh(
    data: Bytes, offsets: Offsets, folds: Folds, words: int, hashes: Hashes, order: Offsets, weights: Weights,
    out: Weights,
) -> None:  # fmt: skip
    """Adds up the weights of the terms that are known, then scales every row."""
    size = _longest(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    for text in range(len(offsets) - 1):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, True, pieces, places)
        for width in range(1, min(words, count) + 1):
            for run in range(grams(pieces, count, width, runs)):
                place = np.searchsorted(hashes, runs[run])
                if place < len(hashes) and hashes[place] == runs[run]:
                    out[text, order[place]] += weights[order[place]]
        _scale(out[text])


@compiled
def _hash(data: Bytes, offsets: Offsets, folds: Folds, words: int, by_word: bool, out: Weights) -> None:
    """Adds one, with a sign that is a bit of the hash, to the bucket of every run; then scales every row.

    With signs the collisions cancel on average (Weinberger et al. 2009).
    """
    size = _longest(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    buckets = np.uint64(out.shape[1])
    for text in range(len(offsets) - 1):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        for width in range(1, min(words, count) + 1):
            for run in range(grams(pieces, count, width, runs)):
                sign = 1.0 if runs[run] >> np.uint64(63) else -1.0
                out[text, np.int64((runs[run] & np.uint64(0x7FFFFFFFFFFFFFFF)) % buckets)] += sign
        _scale(out[text])


@compiled
def _scale(row: Weights) -> None:
    """The row divided by its length; one of zeros stays so."""
    total = 0.0
    for index in range(len(row)):
        total += row[index] * row[index]
    if total > 0.0:
        for index in range(len(row)):
            row[index] /= np.sqrt(total)
