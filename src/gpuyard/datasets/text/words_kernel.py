"""Words and n-grams of UTF-8 text as 64-bit hashes, equal in training and serving."""

from __future__ import annotations

import numpy as np

from gpuyard.datasets.text.words import CODE_POINTS, Bytes, Folds, Hashes, Offsets
from gpuyard.jit import jit

# offset basis and prime of FNV-1a (draft-eastlake-fnv)
FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
# increment and multipliers of SplitMix64 (Steele 2014)
STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)


@jit
def longest_text(offsets: Offsets) -> int:
    """Return the size of the longest text in bytes."""
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    return longest


@jit(inline="always")
def splitmix64(value: np.uint64) -> np.uint64:
    """Return a well-mixed hash of a 64-bit value: the output function of SplitMix64."""
    value = value + STEP
    value = (value ^ (value >> SHIFT_30)) * FIRST
    value = (value ^ (value >> SHIFT_27)) * SECOND
    return value ^ (value >> SHIFT_31)


@jit
def hash_text(
    data: Bytes, start: int, end: int, folds: Folds, by_word: bool, out: Hashes, places: Offsets
) -> int:
    """Hash the words of one text, or its characters, and return their number.

    `places` receives the offset of each. Characters are those of the words, with one space between
    words.
    """
    count, at = 0, start
    value, inside = FNV_OFFSET, False
    while at < end:
        first = data[at]
        here = at
        if first < 0x80:
            code = np.int64(first)
            at += 1
        else:
            size = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
            code = np.int64(first) & (0x7F >> size)
            for step in range(1, size):
                code = (code << 6) | (np.int64(data[at + step]) & 0x3F if at + step < end else 0)
            at += size
        letter = np.int64(folds[code]) if code < CODE_POINTS else code
        if letter == 0:
            if inside:
                out[count] = splitmix64(value) if by_word else splitmix64(np.uint64(32))
                count += 1
                inside = False
                if not by_word:
                    places[count - 1] = here
            continue
        if by_word:
            if not inside:
                value, places[count] = FNV_OFFSET, here
            value = (value ^ np.uint64(letter)) * FNV_PRIME
        else:
            out[count], places[count] = splitmix64(np.uint64(letter)), here
            count += 1
        inside = True
    if inside and by_word:
        out[count] = splitmix64(value)
        count += 1
    return count


@jit
def ngram_hashes(pieces: Hashes, count: int, width: int, out: Hashes) -> int:
    """Hash every run of `width` pieces and return their number; a shorter text is one run."""
    if count == 0:
        return 0
    runs = max(count - width + 1, 1)
    for run in range(runs):
        value = FNV_OFFSET
        for step in range(min(width, count)):
            value = splitmix64(value ^ pieces[run + step])
        out[run] = value
    return runs


@jit
def shingle_sets(
    data: Bytes, offsets: Offsets, folds: Folds, by_word: bool, width: int
) -> tuple[Hashes, Offsets]:
    """Return the sorted distinct shingles of all texts, concatenated, and their offsets."""
    texts = len(offsets) - 1
    size = longest_text(offsets) + 1
    pieces, places = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64)
    runs = np.empty(size, dtype=np.uint64)
    begins = np.zeros(texts + 1, dtype=np.int64)
    shingles = np.empty(max(len(data) // 4, 1024), dtype=np.uint64)
    filled = 0
    for text in range(texts):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        count = ngram_hashes(pieces, count, width, runs)
        ordered = np.sort(runs[:count])
        if filled + count > len(shingles):
            larger = np.empty(2 * len(shingles) + count, dtype=np.uint64)
            larger[:filled] = shingles[:filled]
            shingles = larger
        for index in range(count):
            if index == 0 or ordered[index] != ordered[index - 1]:
                shingles[filled] = ordered[index]
                filled += 1
        begins[text + 1] = filled
    return shingles[:filled].copy(), begins
