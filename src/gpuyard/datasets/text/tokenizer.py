"""The tokenizer of a corpus: a `tokenizer.json` that exists, one trained on the corpus, or plain bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, RefusedError
from gpuyard.home import write_whole

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["END_OF_TEXT", "TOKENIZER_FILE", "Coder", "byte_coder", "coder_of", "open_coder", "train_coder"]

END_OF_TEXT = "<|endoftext|>"
BYTES_COUNT = 256
LONGEST = 1 << 20  # characters that are encoded at once; a longer text is cut at a blank
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coder:
    """A tokenizer with its token for the end of a text."""

    model: Tokenizer
    end_of_text: str
    end_token: int
    byte_tokens: bytes | None = None  # the token of every byte, where every byte is one

    @property
    def vocabulary_count(self) -> int:
        """How many tokens there are; every token is below it."""
        return int(max(self.model.get_vocab(with_added_tokens=True).values())) + 1

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """The smallest type that holds every token."""
        return np.uint16 if self.vocabulary_count <= 1 << 16 else np.uint32

    def encoded(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint32]]:
        """The tokens of every text; a text that contains the mark for the end of a text has no end in it."""
        if self.byte_tokens is not None:  # a table instead of a tokenizer that finds nothing to merge
            runs = (text.encode().translate(self.byte_tokens) for text in texts)
            return [np.frombuffer(run, dtype=np.uint8).astype(np.uint32) for run in runs]
        pieces = [_pieces(text) for text in texts]
        found = self.model.encode_batch_fast([piece for parts in pieces for piece in parts], add_special_tokens=False)
        tokens = iter([np.array(encoding.ids, dtype=np.uint32) for encoding in found])
        return [np.concatenate([next(tokens) for _ in parts]) for parts in pieces]

    def decoded(self, tokens: Iterable[int]) -> str:
        """The text of some tokens."""
        return str(self.model.decode([int(token) for token in tokens], skip_special_tokens=False))

    def save(self, path: Path) -> None:
        """Writes `tokenizer.json`."""
        write_whole(path, self.model.to_str(pretty=False))


def _pieces(text: str) -> list[str]:
    """The text in stretches that a tokenizer takes at once, cut before a blank where there is one."""
    pieces = []
    while len(text) > LONGEST:
        cut = text.rfind(" ", LONGEST // 2, LONGEST)
        cut = LONGEST if cut < 0 else cut
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]


@functools.cache
def _library() -> None:
    """Refuses when the tokenizers library is missing."""
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise RefusedError("tokenizers", "is not installed", "pip install 'gpuyard[run]'") from error


def open_coder(path: Path, end_of_text: str = END_OF_TEXT) -> Coder:
    """The tokenizer of a `tokenizer.json`, or of the folder that holds one."""
    file = path / TOKENIZER_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError.one(str(path), "no such tokenizer", f"name a {TOKENIZER_FILE} or the folder that holds one")
    try:
        return coder_of(file.read_text(encoding="utf-8"), end_of_text, str(file))
    except UnicodeDecodeError:
        raise InputError.one(str(file), "not a tokenizer: not UTF-8", f"name a {TOKENIZER_FILE}") from None


def coder_of(text: str, end_of_text: str = END_OF_TEXT, where: str = TOKENIZER_FILE) -> Coder:
    """The tokenizer of the contents of a `tokenizer.json`."""
    _library()
    from tokenizers import Tokenizer

    try:
        model = Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        fix = f"name a {TOKENIZER_FILE} of the tokenizers library"
        raise InputError.one(where, f"not a tokenizer: {error}", fix) from None
    if model.token_to_id(end_of_text) is None:
        special = [token.content for token in model.get_added_tokens_decoder().values() if token.special]
        have = f"name one of its special tokens: {', '.join(special[:8])}" if special else "add one to it"
        raise InputError.one(where, f'has no token "{end_of_text}" for the end of a text', have)
    return _ready(model, end_of_text)


def byte_coder(end_of_text: str = END_OF_TEXT) -> Coder:
    """Every byte a token, and one for the end of a text: needs no corpus, knows every language."""
    _library()
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE(vocab={letter: token for token, letter in enumerate(letters)}, merges=[]))
    return _ready(_byte_level(model, end_of_text), end_of_text)


def train_coder(batches: Iterable[Sequence[str]], vocabulary_count: int, end_of_text: str = END_OF_TEXT) -> Coder:
    """A byte-level BPE of at most that many tokens, learnt from the texts; the same texts give the same tokenizer."""
    _library()
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    if not BYTES_COUNT + 1 <= vocabulary_count <= 1 << 20:
        what = f"{vocabulary_count} tokens are no vocabulary"
        raise InputError.one(
            "vocabulary", what, f"write {BYTES_COUNT + 1} to {1 << 20}: every byte and the end of a text"
        )
    model = _byte_level(Tokenizer(models.BPE()), end_of_text)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_count,
        special_tokens=[end_of_text],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator((text for batch in batches for text in batch), trainer=trainer)
    return _ready(model, end_of_text)


def _byte_level(model: Tokenizer, end_of_text: str) -> Tokenizer:
    """The model over bytes: any text is encoded and comes back as it was."""
    from tokenizers import decoders, pre_tokenizers

    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens([end_of_text])
    return model


def _ready(model: Tokenizer, end_of_text: str) -> Coder:
    """The tokenizer set to treat every text as text, whatever it contains, and to cut and pad nothing."""
    model.encode_special_tokens = True
    model.no_truncation()
    model.no_padding()
    end_token = model.token_to_id(end_of_text)
    assert end_token is not None
    return Coder(
        model=model, end_of_text=end_of_text, end_token=int(end_token), byte_tokens=_byte_tokens(model, end_of_text)
    )


def _byte_tokens(model: Tokenizer, end_of_text: str) -> bytes | None:
    """The token of every byte, if the model has no others but the end; None if it merges or changes anything."""
    from tokenizers import models, pre_tokenizers

    vocabulary = model.get_vocab(with_added_tokens=True)
    letters = _letters()
    plain = (
        isinstance(model.model, models.BPE)
        and model.normalizer is None
        and isinstance(model.pre_tokenizer, pre_tokenizers.ByteLevel)
        and not model.pre_tokenizer.add_prefix_space
        and vocabulary.keys() == {*letters, end_of_text}
    )
    tokens = [vocabulary[letter] for letter in letters] if plain else [BYTES_COUNT]
    return bytes(tokens) if max(tokens) < BYTES_COUNT else None


def _letters() -> list[str]:
    """The letter that byte-level tokenizers write for every byte: itself where it prints, else the next beyond them
    (Radford et al. 2019, encoder.py of GPT-2)."""
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(BYTES_COUNT) if byte not in printed]
    return [chr(byte if byte in printed else BYTES_COUNT + hidden.index(byte)) for byte in range(BYTES_COUNT)]
