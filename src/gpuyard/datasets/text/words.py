"""Texts as one UTF-8 buffer, and the letters that make words; `words_kernel` hashes the words.

A word is a run of letters, digits, marks and underscores, in lower case. A text in a script without
spaces is one long word: use character shingles for those.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]
Folds = npt.NDArray[np.uint32]

CODE_POINTS = 0x20000  # in the fold table; the letters above are CJK, which has no case


@functools.cache
def lower_case_table() -> Folds:
    """Return the lower case of every code point, or 0 where it is not part of a word."""
    table = np.zeros(CODE_POINTS, dtype=np.uint32)
    for code in range(CODE_POINTS):
        letter = chr(code)
        if letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M":
            lower = letter.lower()
            table[code] = ord(lower) if len(lower) == 1 else code
    table.setflags(write=False)
    return table


def flatten_texts(texts: Sequence[str | None]) -> tuple[Bytes, Offsets]:
    """Return the texts as one UTF-8 buffer with offsets; a missing text is empty."""
    parts = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), dtype=np.uint8), offsets
