"""Words of UTF-8 text as 64-bit hashes, found by one compiled pass; the same words in training and in serving.

A word is a run of letters, digits, marks and underscores, in lower case. A text in a script without spaces is
one long word: take shingles of characters for those.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled, compiled_inline

__all__ = ["Bytes", "Hashes", "Offsets", "flat", "folded", "grams", "hash_text", "mixed", "shingle_sets"]

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]
Folds = npt.NDArray[np.uint32]

PLANES = 0x20000  # code points with a row in the table; the letters above are CJK, which has no case
SEED = np.uint64(0xCBF29CE484222325)  # the offset and the prime of FNV-1a (draft-eastlake-fnv)
PRIME = np.uint64(0x100000001B3)
STEP = np.uint64(0x9E3779B97F4A7C15)  # the increment and the multipliers of SplitMix64 (Steele 2014)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)


@functools.cache
def folded() -> Folds:
    """For every code point its lower case, or 0 where it is no part of a word."""
    table = np.zeros(PLANES, dtype=np.uint32)
    for code in range(PLANES):
        letter = chr(code)
        if letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M":
            lower = letter.lower()
            table[code] = ord(lower) if len(lower) == 1 else code
    table.setflags(write=False)
    return table


def flat(texts: Sequence[str | None]) -> tuple[Bytes, Offsets]:
    """The texts as one run of UTF-8 and where each begins; a missing text is empty."""
    parts = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), dtype=np.uint8), offsets


@compiled_inline
def mixed(value: np.uint64) -> np.uint64:
    """A well-spread hash of a 64-bit value: the output function of SplitMix64."""
    value = value + STEP
    value = (value ^ (value >> SHIFT_30)) * FIRST
    value = (value ^ (value >> SHIFT_27)) * SECOND
    return value ^ (value >> SHIFT_31)


@compiled
def hash_text(data: Bytes, start: int, end: int, folds: Folds, by_word: bool, out: Hashes, places: Offsets) -> int:
    """Hashes of the words of one text, or of its characters; gives their number.

    `places` receives where each begins. Characters are those of the words, with one blank between words.
    """
    count, at = 0, start
    value, inside = SEED, False
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
        letter = np.int64(folds[code]) if code < PLANES else code
        if letter == 0:
            if inside:
                out[count] = mixed(value) if by_word else mixed(np.uint64(32))
                count += 1
                inside = False
                if not by_word:
                    places[count - 1] = here
            continue
        if by_word:
            if not inside:
                value, places[count] = SEED, here
            value = (value ^ np.uint64(letter)) * PRIME
        else:
            out[count], places[count] = mixed(np.uint64(letter)), here
            count += 1
        inside = True
    if inside and by_word:
        out[count] = mixed(value)
        count += 1
    return count


@compiled
def grams(pieces: Hashes, count: int, width: int, out: Hashes) -> int:
    """Hashes of every run of `width` pieces; a text shorter than that is one run. Gives their number."""
    if count == 0:
        return 0
    runs = max(count - width + 1, 1)
    for run in range(runs):
        value = SEED
        for step in range(min(width, count)):
            value = mixed(value ^ pieces[run + step])
        out[run] = value
    return runs


@compiled
def shingle_sets(data: Bytes, offsets: Offsets, folds: Folds, by_word: bool, width: int) -> tuple[Hashes, Offsets]:
    """The distinct shingles of every text, in order of their hashes, one after another; and where each begins."""
    texts = len(offsets) - 1
    longest = 0
    for text in range(texts):
        longest = max(longest, offsets[text + 1] - offsets[text])
    pieces, places = np.empty(longest + 1, dtype=np.uint64), np.empty(longest + 1, dtype=np.int64)
    runs = np.empty(longest + 1, dtype=np.uint64)
    begins = np.zeros(texts + 1, dtype=np.int64)
    found = np.empty(max(len(data) // 4, 1024), dtype=np.uint64)
    filled = 0
    for text in range(texts):
        count = hash_text(data, offsets[text], offsets[text + 1], folds, by_word, pieces, places)
        count = grams(pieces, count, width, runs)
        ordered = np.sort(runs[:count])
        if filled + count > len(found):
            larger = np.empty(2 * len(found) + count, dtype=np.uint64)
            larger[:filled] = found[:filled]
            found = larger
        for index in range(count):
            if index == 0 or ordered[index] != ordered[index - 1]:
                found[filled] = ordered[index]
                filled += 1
        begins[text + 1] = filled
    return found[:filled].copy(), begins
