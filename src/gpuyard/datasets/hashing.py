"""Stable hashes, equal on every engine and at serving: CRC-32 of texts, SplitMix64 of rows."""

from __future__ import annotations

import numpy as np
import polars as pl


def _crc32_table() -> np.ndarray:
    """Return the lookup table of CRC-32 (polynomial 0xEDB88320, as zlib)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_TABLE = _crc32_table()


def text_hash(series: pl.Series) -> np.ndarray:
    """Return the CRC-32 of every text; 0 for a null."""
    from gpuyard.datasets.hashing_kernel import crc32  # imports Numba

    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    out = np.zeros(len(series), dtype=np.uint32)
    if not len(series):
        return out
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(series) + 1]
    empty = data is None or not data.size
    contents = np.zeros(1, np.uint8) if empty else np.frombuffer(data, dtype=np.uint8)
    crc32(contents, places, _TABLE, out)
    return out


def hash_buckets(series: pl.Series, buckets: int) -> pl.Series:
    """Return the bucket of every text; null stays null."""
    new = pl.Series(series.name, (text_hash(series) % np.uint32(buckets)).astype(np.uint32))
    if not series.null_count():
        return new
    return new.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.UInt32))


def row_hash(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return 64 bits for every row number (SplitMix64, Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        state = rows.astype(np.uint64) + np.uint64(
            (seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(state ^ (state >> np.uint64(31)))
