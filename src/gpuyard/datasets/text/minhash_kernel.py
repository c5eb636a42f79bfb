"""Kernels of `minhash`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.words import Bytes, Folds, Hashes, Offsets
from gpuyard.datasets.text.words_kernel import (
    FNV_OFFSET,
    hash_text,
    longest_text,
    ngram_hashes,
    splitmix64,
)
from gpuyard.jit import jit

EMPTY = np.uint32(0xFFFFFFFF)
# multipliers of the finaliser of MurmurHash3 (Appleby 2011)
FIRST, SECOND = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
SHIFT_16, SHIFT_13 = np.uint32(16), np.uint32(13)
HALF = np.uint64(32)

Lanes = npt.NDArray[np.uint32]


# MinHash: the minimum hash of every permutation; the hashes of a band are folded into one key.
@jit
def minhash_bands(
    data: Bytes, offsets: Offsets, folds: Folds, by_word: bool, width: int, seeds: Lanes, rows: int
) -> tuple[Hashes, Offsets]:
    """Return a key per band of every text, and the number of its shingles."""
    texts, bands = len(offsets) - 1, len(seeds) // rows
    size = longest_text(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    keys, sizes = np.empty((texts, bands), dtype=np.uint64), np.zeros(texts, dtype=np.int64)
    minimum = np.empty(len(seeds), dtype=np.uint32)
    for text in range(texts):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        sizes[text] = ngram_hashes(pieces, count, width, runs)
        minimum[:] = EMPTY
        for run in range(sizes[text]):
            low = np.uint32(runs[run] >> HALF)
            for lane in range(len(seeds)):  # branch-free, so that it is vectorised
                value = np.uint32(np.uint32(low ^ seeds[lane]) * FIRST)
                value = np.uint32(np.uint32(value ^ np.uint32(value >> SHIFT_13)) * SECOND)
                minimum[lane] = min(minimum[lane], np.uint32(value ^ np.uint32(value >> SHIFT_16)))
        for band in range(bands):
            key = FNV_OFFSET ^ np.uint64(band)
            for row in range(rows):
                key = splitmix64(key ^ np.uint64(minimum[band * rows + row]))
            keys[text, band] = key
    return keys, sizes


# Compare every text with the kept texts before it that share a band; the first that is similar
# enough is its duplicate. Kept texts of a band group form a linked list: `heads` is the latest,
# `follows` the one kept before it.
@jit
def match_greedily(
    groups: Offsets, sets: Hashes, begins: Offsets, threshold: float
) -> tuple[Offsets, npt.NDArray[np.float64], int]:
    """Return the duplicate of every text, their similarity, and the number of comparisons."""
    texts, bands = groups.shape
    heads = np.full((bands, texts + 1), -1, dtype=np.int64)
    follows = np.full((bands, texts), -1, dtype=np.int64)
    met = np.full(texts, -1, dtype=np.int64)
    near = np.empty(texts, dtype=np.int64)
    of, similarity = np.full(texts, -1, dtype=np.int64), np.zeros(texts)
    compared = 0
    for text in range(texts):
        count = 0
        for band in range(bands):
            other = heads[band, groups[text, band]]
            while other != -1:
                if met[other] != text:
                    met[other], near[count] = text, other
                    count += 1
                other = follows[band, other]
        ordered = np.sort(near[:count])
        for index in range(count):
            other = ordered[index]
            compared += 1
            alike = _jaccard(sets, begins[text], begins[text + 1], begins[other], begins[other + 1])
            if alike >= threshold:
                of[text], similarity[text] = other, alike
                break
        if of[text] == -1:
            for band in range(bands):
                follows[band, text] = heads[band, groups[text, band]]
                heads[band, groups[text, band]] = text
    return of, similarity, compared


@jit
def _jaccard(sets: Hashes, start: int, end: int, other: int, last: int) -> float:
    size, other_size, shared = end - start, last - other, 0
    while start < end and other < last:
        if sets[start] == sets[other]:
            shared += 1
            start += 1
            other += 1
        elif sets[start] < sets[other]:
            start += 1
        else:
            other += 1
    union = size + other_size - shared
    return shared / union if union else 0.0
