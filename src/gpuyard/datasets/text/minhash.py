"""Near-duplicate texts by MinHash and banding (LSH), confirmed by exact Jaccard similarity.

A text is the set of its shingles. The minimum hash of a set under a permutation agrees between two
sets with the probability of their Jaccard similarity s (Broder 1997). `rows` such hashes make a
band; two texts become candidates when one of `bands` bands agrees, with probability
1 − (1 − s^rows)^bands. Candidates are compared shingle by shingle, so there are no false positives;
banding misses some pairs near the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.words import Bytes, Hashes, Offsets, flatten_texts, lower_case_table
from gpuyard.errors import InputError, Problem

NO_DUPLICATE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingles:
    """Shingles of a text: runs of `width` words or characters."""

    unit: Literal["word", "character"] = "word"
    width: int = 5  # with threshold 0.8 as in Lee et al. 2021, "Deduplicating training data …"


@dataclass(frozen=True, slots=True, kw_only=True)
class Banding:
    """Grouping of the hashes of a text into bands."""

    bands: int
    rows: int

    def candidate_ratio(self, similarity_ratio: float) -> float:
        """Return the probability that two texts of that similarity are compared."""
        return 1.0 - (1.0 - similarity_ratio**self.rows) ** self.bands


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDuplicateMap:
    """Earlier text that every text duplicates (-1: none), and their similarity."""

    of: npt.NDArray[np.int64]
    similarity_ratio: npt.NDArray[np.float64]
    compared_count: int

    @property
    def unique(self) -> npt.NDArray[np.bool_]:
        """Texts without an earlier duplicate."""
        mask: npt.NDArray[np.bool_] = self.of == NO_DUPLICATE
        return mask


def banding_for(
    threshold_ratio: float, *, permutations: int = 128, recall_ratio: float = 0.95
) -> Banding:
    """Return the most selective banding with the required recall at the threshold."""
    ranges = (
        ("threshold", threshold_ratio, 0.05, 1.0),
        ("permutations", permutations, 16, 4096),
        ("recall", recall_ratio, 0.5, 0.9999),
    )
    problems = [
        Problem(where=name, what=f"{value:g} is out of range", fix=f"write {low:g} to {high:g}")
        for name, value, low, high in ranges
        if not low <= value <= high
    ]
    if problems:
        raise InputError(problems)
    options = [
        Banding(bands=permutations // rows, rows=rows) for rows in range(permutations, 0, -1)
    ]
    good = (option for option in options if option.candidate_ratio(threshold_ratio) >= recall_ratio)
    return next(good, options[-1])


def near_duplicates(
    texts: Sequence[str | None],
    *,
    threshold_ratio: float = 0.8,
    shingles: Shingles | None = None,
    permutations: int = 128,
    recall_ratio: float = 0.95,
    seed: int = 0,
) -> NearDuplicateMap:
    """Match every text with the first kept text of at least the threshold similarity."""
    from gpuyard.datasets.text.words_kernel import shingle_sets  # imports Numba

    shape = shingles or Shingles()
    banding = banding_for(threshold_ratio, permutations=permutations, recall_ratio=recall_ratio)
    data, offsets = flatten_texts(texts)
    keys, sizes = band_keys(data, offsets, shape, banding, seed)
    candidates = candidate_texts([keys], [sizes])
    data, offsets = flatten_texts([texts[index] for index in candidates])
    sets, begins = shingle_sets(
        data, offsets, lower_case_table(), shape.unit == "word", shape.width
    )
    matches = match_candidates(keys[candidates], sets, begins, threshold_ratio)
    of = np.full(len(texts), NO_DUPLICATE, dtype=np.int64)
    similarity = np.zeros(len(texts))
    matched = np.flatnonzero(~matches.unique)
    of[candidates[matched]] = candidates[matches.of[matched]]
    similarity[candidates[matched]] = matches.similarity_ratio[matched]
    return NearDuplicateMap(
        of=of, similarity_ratio=similarity, compared_count=matches.compared_count
    )


def band_keys(
    data: Bytes, offsets: Offsets, shingles: Shingles, banding: Banding, seed: int = 0
) -> tuple[Hashes, Offsets]:
    """Return a 64-bit key per band and text, and the number of shingles of each text."""
    from gpuyard.datasets.text.minhash_kernel import minhash_bands  # imports Numba

    seeds = np.random.default_rng(seed).integers(
        1, 2**32, size=banding.bands * banding.rows, dtype=np.uint32
    )
    by_word = shingles.unit == "word"
    return minhash_bands(
        data, offsets, lower_case_table(), by_word, shingles.width, seeds, banding.rows
    )


def candidate_texts(keys: Sequence[Hashes], sizes: Sequence[Offsets]) -> Offsets:
    """Return the indices of texts that share a band key with another, over all partitions.

    One band is in memory at a time; the keys may be memory maps.
    """
    has_shingles = np.concatenate([np.asarray(size) > 0 for size in sizes])
    texts = np.flatnonzero(has_shingles)
    shared = np.zeros(len(has_shingles), dtype=np.bool_)
    for band in range(keys[0].shape[1]):
        column = np.concatenate([part[:, band] for part in keys])[texts]
        order = np.argsort(column, kind="stable")
        same = column[order][1:] == column[order][:-1]
        shared[texts[order[1:][same]]] = True
        shared[texts[order[:-1][same]]] = True
    return np.flatnonzero(shared)


def match_candidates(
    keys: Hashes, sets: Hashes, begins: Offsets, threshold_ratio: float
) -> NearDuplicateMap:
    """Match candidates by band keys and exact similarity; the first of each group is kept."""
    from gpuyard.datasets.text.minhash_kernel import match_greedily  # imports Numba

    groups = np.empty(keys.shape, dtype=np.int64)
    for band in range(keys.shape[1]):
        groups[:, band] = np.unique(keys[:, band], return_inverse=True)[1]
    of, similarity, compared = match_greedily(groups, sets, begins, threshold_ratio)
    return NearDuplicateMap(of=of, similarity_ratio=similarity, compared_count=int(compared))
