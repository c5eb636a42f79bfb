"""Texts that are nearly the same, found by MinHash and banding, then proven by their exact Jaccard similarity.

A text is the set of its shingles. The least hash of a set under a permutation agrees between two sets with the
probability of their Jaccard similarity s (Broder 1997). `rows` such hashes make a band; two texts meet when one of
`bands` bands agrees, with probability 1 − (1 − s^rows)^bands. Those that meet are compared shingle by shingle, so
nothing is called a duplicate by chance; what banding misses near the threshold is the price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.datasets.text.words import (
    SEED,
    Bytes,
    Folds,
    Hashes,
    Offsets,
    flat,
    folded,
    grams,
    hash_text,
    mixed,
    shingle_sets,
)
from gpuyard.errors import InputError, Problem

__all__ = ["Banding", "Shingles", "Twins", "band_keys", "banding_for", "find_twins", "near_duplicates", "suspects"]

NO_TWIN = -1
EMPTY = np.uint32(0xFFFFFFFF)
FIRST, SECOND = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)  # the finaliser of MurmurHash3 (Appleby 2011)
SHIFT_16, SHIFT_13 = np.uint32(16), np.uint32(13)
HALF = np.uint64(32)

Lanes = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingles:
    """What a text is made of: runs of so many words, or of so many characters."""

    unit: Literal["word", "character"] = "word"
    width: int = 5  # with 0.8 as in Lee et al. 2021, "Deduplicating training data makes language models better"

    def problems(self, where: str) -> tuple[Problem, ...]:
        """What is wrong with it."""
        if 1 <= self.width <= 64:
            return ()
        return (Problem(where=f"{where}: width", what=f"{self.width} is no width", fix="write 1 to 64"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Banding:
    """How the hashes of a text are grouped."""

    bands: int
    rows: int

    def meet_ratio(self, similarity_ratio: float) -> float:
        """The probability that two texts of that similarity are compared."""
        return 1.0 - (1.0 - similarity_ratio**self.rows) ** self.bands


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """For every text the earlier kept text that it repeats, or -1 where it is kept; and how similar they are."""

    of: npt.NDArray[np.int64]
    similarity_ratio: npt.NDArray[np.float64]
    compared_count: int

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """The texts that stay."""
        kept: npt.NDArray[np.bool_] = self.of == NO_TWIN
        return kept


def banding_for(threshold_ratio: float, *, permutations: int = 128, recall_ratio: float = 0.95) -> Banding:
    """The most selective banding that compares pairs at the threshold with at least the wanted probability."""
    wrong = []
    if not 0.05 <= threshold_ratio <= 1.0:
        what = f"{threshold_ratio:g} is no similarity to ask for"
        wrong.append(Problem(where="threshold", what=what, fix="write 0.05 to 1"))
    if not 16 <= permutations <= 4096:
        wrong.append(Problem(where="permutations", what=f"{permutations} is out of range", fix="write 16 to 4096"))
    if not 0.5 <= recall_ratio <= 0.9999:
        wrong.append(Problem(where="recall", what=f"{recall_ratio:g} is out of range", fix="write 0.5 to 0.9999"))
    if wrong:
        raise InputError(wrong)
    choices = [Banding(bands=permutations // rows, rows=rows) for rows in range(permutations, 0, -1)]
    good = (choice for choice in choices if choice.meet_ratio(threshold_ratio) >= recall_ratio)
    return next(good, choices[-1])


def near_duplicates(
    texts: Sequence[str | None],
    *,
    threshold_ratio: float = 0.8,
    shingles: Shingles | None = None,
    permutations: int = 128,
    recall_ratio: float = 0.95,
    seed: int = 0,
) -> Twins:
    """For every text the first kept one before it whose Jaccard similarity is at least the threshold."""
    shape = shingles or Shingles()
    banding = banding_for(threshold_ratio, permutations=permutations, recall_ratio=recall_ratio)
    data, offsets = flat(texts)
    keys, sizes = band_keys(data, offsets, shape, banding, seed)
    doubtful = suspects([keys], [sizes])
    sets, begins = shingle_sets(
        *flat([texts[index] for index in doubtful]), folded(), shape.unit == "word", shape.width
    )
    found = find_twins(keys[doubtful], sets, begins, threshold_ratio)
    of, similarity = np.full(len(texts), NO_TWIN, dtype=np.int64), np.zeros(len(texts))
    matched = np.flatnonzero(~found.kept)
    of[doubtful[matched]] = doubtful[found.of[matched]]
    similarity[doubtful[matched]] = found.similarity_ratio[matched]
    return Twins(of=of, similarity_ratio=similarity, compared_count=found.compared_count)


def band_keys(
    data: Bytes, offsets: Offsets, shingles: Shingles, banding: Banding, seed: int = 0
) -> tuple[Hashes, Offsets]:
    """One 64-bit key for every band of every text, and how many shingles each has (0: it meets no other)."""
    lanes = np.random.default_rng(seed).integers(1, 2**32, size=banding.bands * banding.rows, dtype=np.uint32)
    return _band_keys(data, offsets, folded(), shingles.unit == "word", shingles.width, lanes, banding.rows)


@compiled
def _band_keys(
    data: Bytes, offsets: Offsets, folds: Folds, by_word: bool, width: int, seeds: Lanes, rows: int
) -> tuple[Hashes, Offsets]:
    """The least hash of every permutation, a band of them folded into a key."""
    texts, bands = len(offsets) - 1, len(seeds) // rows
    longest = 0
    for text in range(texts):
        longest = max(longest, offsets[text + 1] - offsets[text])
    pieces, places = np.empty(longest + 1, dtype=np.uint64), np.empty(longest + 1, dtype=np.int64)
    runs = np.empty(longest + 1, dtype=np.uint64)
    keys, sizes = np.empty((texts, bands), dtype=np.uint64), np.zeros(texts, dtype=np.int64)
    least = np.empty(len(seeds), dtype=np.uint32)
    for text in range(texts):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        sizes[text] = grams(pieces, count, width, runs)
        least[:] = EMPTY
        for run in range(sizes[text]):
            low = np.uint32(runs[run] >> HALF)
            for lane in range(len(seeds)):  # branch-free, so that it is done in vectors
                value = np.uint32(np.uint32(low ^ seeds[lane]) * FIRST)
                value = np.uint32(np.uint32(value ^ np.uint32(value >> SHIFT_13)) * SECOND)
                least[lane] = min(least[lane], np.uint32(value ^ np.uint32(value >> SHIFT_16)))
        for band in range(bands):
            key = SEED ^ np.uint64(band)
            for row in range(rows):
                key = mixed(key ^ np.uint64(least[band * rows + row]))
            keys[text, band] = key
    return keys, sizes


def suspects(keys: Sequence[Hashes], sizes: Sequence[Offsets]) -> Offsets:
    """The numbers of the texts that share a band with another, over all parts; only these are compared.

    One band is in memory at a time; the parts may be memory maps.
    """
    full = np.concatenate([np.asarray(size) > 0 for size in sizes])
    texts = np.flatnonzero(full)
    found = np.zeros(len(full), dtype=np.bool_)
    for band in range(keys[0].shape[1]):
        column = np.concatenate([part[:, band] for part in keys])[texts]
        order = np.argsort(column, kind="stable")
        same = column[order][1:] == column[order][:-1]
        found[texts[order[1:][same]]] = True
        found[texts[order[:-1][same]]] = True
    return np.flatnonzero(found)


def find_twins(keys: Hashes, sets: Hashes, begins: Offsets, threshold_ratio: float) -> Twins:
    """The twins among texts by their band keys and shingles; the first of each kind is kept."""
    groups = np.empty(keys.shape, dtype=np.int64)
    for band in range(keys.shape[1]):
        groups[:, band] = np.unique(keys[:, band], return_inverse=True)[1]
    of, similarity, compared = _greedy(groups, sets, begins, threshold_ratio)
    return Twins(of=of, similarity_ratio=similarity, compared_count=int(compared))


@compiled
def _greedy(
    groups: Offsets, sets: Hashes, begins: Offsets, threshold: float
) -> tuple[Offsets, npt.NDArray[np.float64], int]:
    """Every text against the kept ones before it that it meets; the first that is similar enough is its twin."""
    texts, bands = groups.shape
    heads = np.full((bands, texts + 1), -1, dtype=np.int64)  # the latest kept text of a group
    follows = np.full((bands, texts), -1, dtype=np.int64)  # and the one kept before it
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


@compiled
def _jaccard(sets: Hashes, start: int, end: int, other: int, last: int) -> float:
    """Shared shingles over all shingles of two ordered sets."""
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
