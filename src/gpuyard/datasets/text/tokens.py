"""Packed tokens: texts end to end, an end token after each, cut into sequences of equal length.

A shard is a file of unsigned little-endian integers, [sequences, sequence_tokens], with its facts
next to it as JSON. Nothing is padded. A text ends at its end token, which no text can contain.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyard.datasets.text.tokenizer import Coder
from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import write_atomic

MAX_SEQUENCE_TOKENS = 1 << 24
NOT_LEARNED = np.uint32(1 << 31)  # flag of tokens of masked shards that are no labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """Contents of one shard; in_tokens = packed_tokens + left_tokens."""

    sequences_count: int
    sequence_tokens: int
    dtype: str
    vocabulary_count: int
    end_token: int
    texts_count: int  # texts with tokens
    empty_count: int  # missing or empty texts
    in_tokens: int  # including the end tokens
    packed_tokens: int
    left_tokens: int  # after the last full sequence
    sha256: str
    masked: bool = False  # tokens carry the flag NOT_LEARNED; every text is one padded sequence
    pairs: bool = False  # a sequence is a chosen conversation, then a rejected one


def facts_path(path: Path) -> Path:
    """Return the path of the facts of a shard."""
    return path.with_name(path.name + ".json")


def write_shard(
    batches: Iterable[Sequence[str | None]], coder: Coder, sequence_tokens: int, path: Path
) -> ShardFacts:
    """Encode and pack texts into one shard, one batch in memory; the facts are written last."""
    if sequence_tokens < 2:
        raise InputError.one(
            "sequence", f"{sequence_tokens} tokens is out of range", "write 2 or more"
        )
    dtype = np.dtype(coder.dtype).newbyteorder("<")
    left = np.empty(0, dtype=dtype)
    sequences = texts_count = empty_count = in_tokens = 0

    def blocks() -> Iterator[bytes]:
        nonlocal left, sequences, texts_count, empty_count, in_tokens
        for texts in batches:
            present = [text for text in texts if text]
            texts_count += len(present)
            empty_count += len(texts) - len(present)
            encoded = (
                np.append(tokens, np.uint32(coder.end_token)).astype(dtype)
                for tokens in coder.encode(present)
            )
            stream = np.concatenate([left, *encoded])
            in_tokens += len(stream) - len(left)
            full = len(stream) // sequence_tokens
            sequences += full
            left = stream[full * sequence_tokens :]
            yield stream[: full * sequence_tokens].tobytes()

    digest = write_blocks(blocks(), path)
    facts = ShardFacts(
        sequences_count=sequences,
        sequence_tokens=sequence_tokens,
        dtype=np.dtype(coder.dtype).name,
        vocabulary_count=coder.vocabulary_count,
        end_token=coder.end_token,
        texts_count=texts_count,
        empty_count=empty_count,
        in_tokens=in_tokens,
        packed_tokens=sequences * sequence_tokens,
        left_tokens=len(left),
        sha256=digest,
    )
    write_atomic(facts_path(path), dump_json(facts))
    return facts


def write_blocks(blocks: Iterable[bytes], path: Path) -> str:
    """Write the contents of a shard atomically and return their SHA-256."""
    digest = hashlib.sha256()
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for block in blocks:
                file.write(block)
                digest.update(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror}"
        raise ExternalError(str(path), what, "free disk space, or use another folder") from error
    return digest.hexdigest()
