"""Tokenizer of a corpus: an existing `tokenizer.json`, one trained on the corpus, or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.home import write_atomic

if TYPE_CHECKING:
    from tokenizers import Tokenizer


END_OF_TEXT = "<|endoftext|>"
BYTES_COUNT = 256
MAX_VOCABULARY = 1 << 20
MAX_CHARACTERS = 1 << 20  # encoded at once; a longer text is split at a space
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coder:
    """Tokenizer with its end-of-text token."""

    model: Tokenizer
    end_of_text: str
    end_token: int
    byte_tokens: bytes | None = None  # token of every byte, if tokens are single bytes

    @property
    def vocabulary_count(self) -> int:
        """Size of the vocabulary; every token is below it."""
        return int(max(self.model.get_vocab(with_added_tokens=True).values())) + 1

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """Smallest type that holds every token."""
        return np.uint16 if self.vocabulary_count <= 1 << 16 else np.uint32

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint32]]:
        """Return the tokens of every text; a literal end-of-text mark is encoded as plain text."""
        if self.byte_tokens is not None:  # a lookup table: there is nothing to merge
            runs = (text.encode().translate(self.byte_tokens) for text in texts)
            return [np.frombuffer(run, dtype=np.uint8).astype(np.uint32) for run in runs]
        pieces = [_pieces(text) for text in texts]
        encodings = self.model.encode_batch_fast(
            [piece for parts in pieces for piece in parts], add_special_tokens=False
        )
        tokens = iter([np.array(encoding.ids, dtype=np.uint32) for encoding in encodings])
        return [np.concatenate([next(tokens) for _ in parts]) for parts in pieces]

    def decode(self, tokens: Iterable[int]) -> str:
        return str(self.model.decode([int(token) for token in tokens], skip_special_tokens=False))

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`."""
        write_atomic(path, self.model.to_str(pretty=False))


def _pieces(text: str) -> list[str]:
    pieces = []
    while len(text) > MAX_CHARACTERS:
        cut = text.rfind(" ", MAX_CHARACTERS // 2, MAX_CHARACTERS)
        cut = MAX_CHARACTERS if cut < 0 else cut
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


def load_coder(path: Path, end_of_text: str = END_OF_TEXT) -> Coder:
    """Return the tokenizer of a `tokenizer.json`, or of the folder that holds one."""
    file = path / TOKENIZER_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError.one(
            str(path), "no such tokenizer", f"name a {TOKENIZER_FILE} or the folder that holds one"
        )
    try:
        return parse_coder(file.read_text(encoding="utf-8"), end_of_text, str(file))
    except UnicodeDecodeError:
        raise InputError.one(
            str(file), "not a tokenizer: not UTF-8", f"name a {TOKENIZER_FILE}"
        ) from None


def parse_coder(text: str, end_of_text: str = END_OF_TEXT, where: str = TOKENIZER_FILE) -> Coder:
    """Return the tokenizer from the contents of a `tokenizer.json`."""
    from tokenizers import Tokenizer

    try:
        model = Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        fix = f"name a {TOKENIZER_FILE} of the tokenizers library"
        raise InputError.one(where, f"not a tokenizer: {error}", fix) from None
    if model.token_to_id(end_of_text) is None:
        tokens = model.get_added_tokens_decoder().values()
        special = ", ".join([token.content for token in tokens if token.special][:8])
        fix = f"name one of its special tokens: {special}" if special else "add one to it"
        raise InputError.one(where, f'has no end-of-text token "{end_of_text}"', fix)
    return _configured(model, end_of_text)


def byte_coder(end_of_text: str = END_OF_TEXT) -> Coder:
    """Return a tokenizer with a token per byte and an end-of-text token; it needs no corpus."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: token for token, letter in enumerate(letters)}
    model = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    return _configured(_byte_level(model, end_of_text), end_of_text)


def train_coder(
    batches: Iterable[Sequence[str]], vocabulary_count: int, end_of_text: str = END_OF_TEXT
) -> Coder:
    """Train a byte-level BPE with at most `vocabulary_count` tokens; training is deterministic."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    least = BYTES_COUNT + 1
    if not least <= vocabulary_count <= MAX_VOCABULARY:
        what = f"{vocabulary_count} tokens is out of range"
        fix = f"write {least} (every byte and the end of text) to {MAX_VOCABULARY}"
        raise InputError.one("vocabulary", what, fix)
    model = _byte_level(Tokenizer(models.BPE()), end_of_text)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_count,
        special_tokens=[end_of_text],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator((text for batch in batches for text in batch), trainer=trainer)
    return _configured(model, end_of_text)


def _byte_level(model: Tokenizer, end_of_text: str) -> Tokenizer:
    """Set the model to work on bytes, so that any text round-trips."""
    from tokenizers import decoders, pre_tokenizers

    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens([end_of_text])
    return model


def _configured(model: Tokenizer, end_of_text: str) -> Coder:
    """Set the model to encode special tokens as plain text, without truncation or padding."""
    model.encode_special_tokens = True
    model.no_truncation()
    model.no_padding()
    end_token = model.token_to_id(end_of_text)
    assert end_token is not None
    return Coder(
        model=model,
        end_of_text=end_of_text,
        end_token=int(end_token),
        byte_tokens=_byte_tokens(model, end_of_text),
    )


def _byte_tokens(model: Tokenizer, end_of_text: str) -> bytes | None:
    """Return the token of every byte; None if the model merges or normalises anything."""
    from tokenizers import models, pre_tokenizers

    vocabulary = model.get_vocab(with_added_tokens=True)
    letters = _byte_letters()
    only_bytes = (
        isinstance(model.model, models.BPE)
        and model.normalizer is None
        and isinstance(model.pre_tokenizer, pre_tokenizers.ByteLevel)
        and not model.pre_tokenizer.add_prefix_space
        and vocabulary.keys() == {*letters, end_of_text}
    )
    tokens = [vocabulary[letter] for letter in letters] if only_bytes else [BYTES_COUNT]
    return bytes(tokens) if max(tokens) < BYTES_COUNT else None


# Byte-level tokenizers write a byte as itself where it is printable, else as the next unused
# character above 255 (Radford et al. 2019, encoder.py of GPT-2).
def _byte_letters() -> list[str]:
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    hidden = [byte for byte in range(BYTES_COUNT) if byte not in printable]
    return [
        chr(byte if byte in printable else BYTES_COUNT + hidden.index(byte))
        for byte in range(BYTES_COUNT)
    ]
