"""Stable hashes, the same on every engine, in every process and at serving: CRC-32 of texts, SplitMix64 of rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuyard.compiled import compiled

__all__ = ["hashed", "row_hash", "text_hash"]


def _table() -> np.ndarray:
    """The table of CRC-32 (polynomial 0xEDB88320, as zlib)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_TABLE = _table()


@compiled
def _crc32(data: np.ndarray, offsets: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """The CRC-32 of every text of a buffer."""
    for row in range(len(out)):
        crc = np.uint32(0xFFFFFFFF)
        for at in range(offsets[row], offsets[row + 1]):
            crc = table[(crc ^ data[at]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        out[row] = crc ^ np.uint32(0xFFFFFFFF)


def text_hash(series: pl.Series) -> np.ndarray:
    """The CRC-32 of every text; that of a null is 0."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    out = np.zeros(len(series), dtype=np.uint32)
    if not len(series):
        return out
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(series) + 1]
    contents = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    _crc32(contents, places, _TABLE, out)
    return out


def hashed(series: pl.Series, buckets: int) -> pl.Series:
    """The bucket of every text; null stays null."""
    new = pl.Series(series.name, (text_hash(series) % np.uint32(buckets)).astype(np.uint32))
    return new if not series.null_count() else new.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.UInt32))


def row_hash(rows: np.ndarray, seed: int) -> np.ndarray:
    """A number of 64 bits for every row number (SplitMix64, Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        state = rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(state ^ (state >> np.uint64(31)))
