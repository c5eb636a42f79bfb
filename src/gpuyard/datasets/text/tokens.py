"""Texts packed for language models: tokens end to end, an end token after every text, cut into equal sequences.

A shard is a file of unsigned little-endian integers, [sequences, sequence_tokens], and its facts beside it as JSON.
Nothing is padded. Where a text ends is where its end token is: no text can contain that token.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.text.tokenizer import Coder
from gpuyard.document import dump_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import write_whole

__all__ = ["ShardFacts", "facts_path", "write_shard"]

BATCH_TEXTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """What one shard holds; texts and tokens in are accounted for."""

    sequences_count: int
    sequence_tokens: int
    dtype: str
    vocabulary_count: int
    end_token: int
    texts_count: int  # that gave tokens
    empty_count: int  # texts that were missing or empty
    in_tokens: int  # with the end tokens
    packed_tokens: int
    left_tokens: int  # after the last full sequence; in = packed + left
    sha256: str


def facts_path(path: Path) -> Path:
    """Where the facts of a shard stand."""
    return path.with_name(path.name + ".json")


def write_shard(batches: Iterable[Sequence[str | None]], coder: Coder, sequence_tokens: int, path: Path) -> ShardFacts:
    """Encodes and packs the texts into one shard, in memory of a batch; the facts are written last, so it is whole."""
    if sequence_tokens < 2:
        raise InputError.one("sequence", f"{sequence_tokens} tokens are no sequence", "write 2 or more")
    dtype = np.dtype(coder.dtype).newbyteorder("<")
    left = np.empty(0, dtype=dtype)
    sequences = texts_count = empty_count = in_tokens = 0
    digest = hashlib.sha256()
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for texts in _small(batches):
                present = [text for text in texts if text]
                tokens = coder.encoded(present)
                texts_count, empty_count = texts_count + len(present), empty_count + len(texts) - len(present)
                stream = np.concatenate([left, *(_ended(run, coder.end_token).astype(dtype) for run in tokens)])
                in_tokens += len(stream) - len(left)
                full = len(stream) // sequence_tokens
                block = stream[: full * sequence_tokens].tobytes()
                file.write(block)
                digest.update(block)
                sequences, left = sequences + full, stream[full * sequence_tokens :]
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror}"
        raise RefusedError(str(path), what, "free disk space, or name another folder") from error
    facts = ShardFacts(
        sequences_count=sequences, sequence_tokens=sequence_tokens, dtype=np.dtype(coder.dtype).name,
        vocabulary_count=coder.vocabulary_count, end_token=coder.end_token, texts_count=texts_count,
        empty_count=empty_count, in_tokens=in_tokens, packed_tokens=sequences * sequence_tokens,
        left_tokens=len(left), sha256=digest.hexdigest(),
    )  # fmt: skip
    write_whole(facts_path(path), dump_json(facts))
    return facts


def _small(batches: Iterable[Sequence[str | None]]) -> Iterable[Sequence[str | None]]:
    """The texts in batches that are encoded at once."""
    for batch in batches:
        for start in range(0, len(batch), BATCH_TEXTS):
            yield batch[start : start + BATCH_TEXTS]


def _ended(tokens: npt.NDArray[np.uint32], end_token: int) -> npt.NDArray[np.uint32]:
    """The tokens of a text and its end."""
    return np.append(tokens, np.uint32(end_token))
