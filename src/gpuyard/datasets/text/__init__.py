"""Texts: words, near duplicates, features, tokenizers and packed tokens."""

from gpuyard.datasets.text.minhash import Shingles, Twins, near_duplicates
from gpuyard.datasets.text.shards import TokenShards, read_tokens
from gpuyard.datasets.text.tokenizer import Coder, byte_coder, open_coder, train_coder

__all__ = [
    "Coder",
    "Shingles",
    "TokenShards",
    "Twins",
    "byte_coder",
    "near_duplicates",
    "open_coder",
    "read_tokens",
    "train_coder",
]
