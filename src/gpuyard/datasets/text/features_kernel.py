"""Kernels of `features`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.words import Bytes, Folds, Hashes, Offsets
from gpuyard.datasets.text.words_kernel import hash_text, longest_text, ngram_hashes
from gpuyard.jit import jit

Weights = npt.NDArray[np.float64]


# Sort the n-gram hashes of one text to find its distinct terms, and note for each the byte range
# where it first occurs, from which its spelling is recovered.
@jit
def distinct_terms(
    data: Bytes, offsets: Offsets, folds: Folds, words: int
) -> tuple[Hashes, Offsets, Offsets]:
    """Return the distinct terms of every text: hashes, and where each starts and ends."""
    size = longest_text(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    capacity = max(len(data) // 4, 1024)
    hashes = np.empty(capacity, np.uint64)
    starts = np.empty(capacity, np.int64)
    ends = np.empty(capacity, np.int64)
    filled = 0
    for text in range(len(offsets) - 1):
        end = offsets[text + 1]
        count = hash_text(data, offsets[text], end, folds, True, pieces, places)
        for width in range(1, min(words, count) + 1):
            runs_count = ngram_hashes(pieces, count, width, runs)
            order = np.argsort(runs[:runs_count])
            if filled + runs_count > len(hashes):
                capacity = 2 * len(hashes) + runs_count
                hashes, starts, ends = _grow(hashes, starts, ends, filled, capacity)
            for index in range(runs_count):
                run = order[index]
                if index == 0 or runs[run] != runs[order[index - 1]]:
                    hashes[filled] = runs[run]
                    starts[filled] = places[run]
                    ends[filled] = places[run + width] if run + width < count else end
                    filled += 1
    return hashes[:filled], starts[:filled], ends[:filled]


@jit
def _grow(
    hashes: Hashes, starts: Offsets, ends: Offsets, filled: int, capacity: int
) -> tuple[Hashes, Offsets, Offsets]:
    new_hashes = np.empty(capacity, np.uint64)
    new_starts = np.empty(capacity, np.int64)
    new_ends = np.empty(capacity, np.int64)
    new_hashes[:filled] = hashes[:filled]
    new_starts[:filled] = starts[:filled]
    new_ends[:filled] = ends[:filled]
    return new_hashes, new_starts, new_ends


@jit
def add_weights(
    data: Bytes,
    offsets: Offsets,
    folds: Folds,
    words: int,
    hashes: Hashes,
    order: Offsets,
    weights: Weights,
    out: Weights,
) -> None:
    """Add the weights of known terms to `out`, then scale its rows."""
    size = longest_text(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    for text in range(len(offsets) - 1):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, True, pieces, places)
        for width in range(1, min(words, count) + 1):
            for run in range(ngram_hashes(pieces, count, width, runs)):
                place = np.searchsorted(hashes, runs[run])
                if place < len(hashes) and hashes[place] == runs[run]:
                    out[text, order[place]] += weights[order[place]]
        _scale_to_unit(out[text])


# Feature hashing: add ±1 to the bucket of every n-gram, the sign being one bit of its hash.
# With signs, collisions cancel on average (Weinberger et al. 2009).
@jit
def add_signs(
    data: Bytes, offsets: Offsets, folds: Folds, words: int, by_word: bool, out: Weights
) -> None:
    """Add the signs of n-grams to their buckets in `out`, then scale its rows."""
    size = longest_text(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    buckets = np.uint64(out.shape[1])
    for text in range(len(offsets) - 1):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        for width in range(1, min(words, count) + 1):
            for run in range(ngram_hashes(pieces, count, width, runs)):
                sign = 1.0 if runs[run] >> np.uint64(63) else -1.0
                out[text, np.int64((runs[run] & np.uint64(0x7FFFFFFFFFFFFFFF)) % buckets)] += sign
        _scale_to_unit(out[text])


@jit
def _scale_to_unit(row: Weights) -> None:
    total = 0.0
    for index in range(len(row)):
        total += row[index] * row[index]
    if total > 0.0:
        for index in range(len(row)):
            row[index] /= np.sqrt(total)
