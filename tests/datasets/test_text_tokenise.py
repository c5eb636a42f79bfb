"""Tokenizers and packed tokens: texts round-trip, counts add up, bad shards raise errors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import normalizers

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.text import tokenizer as tokenizer_module
from gpuyard.datasets.text.shards import read_tokens
from gpuyard.datasets.text.tokenise import TextSample, TextSampleRequest, Tokenise, TokenizerState
from gpuyard.datasets.text.tokenizer import byte_coder, load_coder, train_coder
from gpuyard.datasets.text.tokens import write_shard
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError

from .corpus import documents

COLUMNS = Columns(items=(Column(name="path", dtype="String"), Column(name="text", dtype="String")))
ODD = [
    "x <|endoftext|> y",
    "日本 😀 \u0000 e\u0301",
    "\ufeff",
    " ",
    "\r\n\t",
    "🏳️‍🌈",
    "ﷺ",
    "<|endoftext|>",
]


def fitted(step: Tokenise, texts: list[str] | None = None) -> TokenizerState:
    requests = step.bind(COLUMNS, "steps[0]").requests(COLUMNS)
    frame = pl.DataFrame({"text": texts or []}, schema={"text": pl.String})
    return step.fit_state({request: request.collect(frame) for request in requests}, COLUMNS)[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("trained", [False, True])
def test_texts_round_trip_through_tokenizer(trained: bool) -> None:
    coder = train_coder([documents()[:100]], 800) if trained else byte_coder()
    assert coder.vocabulary_count == (800 if trained else 257)
    texts = [*documents()[:50], *ODD]
    for text, tokens in zip(texts, coder.encode(texts), strict=True):
        assert coder.decode(tokens) == text
        assert coder.end_token not in tokens  # a text cannot end itself
    if trained:
        assert sum(map(len, coder.encode(texts))) < 0.5 * sum(len(text.encode()) for text in texts)


@given(st.text(max_size=40))
@hypothesis_settings(max_examples=100)
def test_byte_table_matches_tokenizer(text: str) -> None:
    coder = byte_coder()
    assert coder.byte_tokens is not None
    encoding = coder.model.encode(text, add_special_tokens=False)
    assert coder.encode([text])[0].tolist() == encoding.ids


def test_only_byte_tokenizer_has_byte_table() -> None:
    coder = byte_coder()
    assert (
        tokenizer_module.parse_coder(coder.model.to_str()).byte_tokens == coder.byte_tokens
    )  # as a run reads it back
    trained = train_coder([documents()[:20]], 300)
    assert trained.byte_tokens is None
    lowered = tokenizer_module.parse_coder(coder.model.to_str()).model
    lowered.normalizer = normalizers.Lowercase()
    assert tokenizer_module.parse_coder(lowered.to_str()).byte_tokens is None


def test_tokenizer_training_is_deterministic() -> None:
    first, second = (
        train_coder([documents()[:60], documents()[60:120]], 500).model.to_str() for _ in range(2)
    )
    assert first == second


def test_packing_preserves_token_order(tmp_path: Path) -> None:
    coder = byte_coder()
    texts = [*documents()[:30], None, "", *ODD]
    facts = write_shard([texts[:7], texts[7:]], coder, 64, tmp_path / "part-0.bin")
    present = [text for text in texts if text]
    stream = np.concatenate([[*tokens, coder.end_token] for tokens in coder.encode(present)])
    assert facts.in_tokens == len(stream) == facts.packed_tokens + facts.left_tokens
    assert facts.left_tokens < 64
    assert (facts.texts_count, facts.empty_count) == (len(present), 2)
    shards = read_tokens([tmp_path / "part-0.bin"])
    assert shards[:].ravel().tolist() == stream[: facts.packed_tokens].tolist()
    assert facts.sha256 == hashlib.sha256((tmp_path / "part-0.bin").read_bytes()).hexdigest()
    assert (stream == coder.end_token).sum() == len(
        present
    )  # boundaries are kept, and none is made up
    segments = shards.texts_of(shards[:])
    assert segments.shape == shards[:].shape
    assert segments[:, 0].max() == 0
    assert int(segments.max()) >= 1


@given(st.lists(st.one_of(st.none(), st.text(max_size=30)), max_size=8), st.integers(2, 20))
@hypothesis_settings(max_examples=40)
def test_token_counts_add_up(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], size: int
) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    facts = write_shard([texts], byte_coder(), size, folder / "a.bin")
    want = sum(len(text.encode()) + 1 for text in texts if text)
    assert facts.in_tokens == want
    assert facts.packed_tokens == want // size * size
    assert facts.left_tokens == want % size
    assert facts.texts_count + facts.empty_count == len(texts)


def test_shards_index_as_one_array(tmp_path: Path) -> None:
    coder = byte_coder()
    files = [tmp_path / f"part-{number}.bin" for number in range(3)]
    for number, file in enumerate(files):
        write_shard(
            [documents()[number * 5 : number * 5 + 5] if number != 1 else []], coder, 128, file
        )
    shards = read_tokens(files)
    whole = shards[:]
    assert len(whole) == len(shards) == sum(fact.sequences_count for fact in shards.facts)
    assert shards.facts[1].sequences_count == 0  # an empty partition is no trouble
    order = np.random.default_rng(0).permutation(len(shards))
    assert (shards[order] == whole[order]).all()
    assert (shards[-1] == whole[-1]).all()
    assert shards[[0, -1]].shape == (2, 128)
    with pytest.raises(IndexError):
        shards[len(shards)]
    assert shards.sequence_tokens == 128
    assert isinstance(shards.arrays[0], np.memmap)


def test_tokenise_writes_shards_with_tokenizer(tmp_path: Path) -> None:
    part = fitted(Tokenise(vocabulary=400, sequence_tokens=32), list(documents()[:40]))
    assert load_json(dump_json(part), TokenizerState) == part
    frame = pl.DataFrame({"path": ["a"] * 40, "text": documents()[:40]})
    writer = part.writer()
    samples = writer.write(frame, str(tmp_path / f"part-0{writer.suffix}"))
    shards = read_tokens([tmp_path / "part-0.bin"])
    assert len(shards) == samples > 100
    coder = load_coder(shards.tokenizer)
    assert coder.decode(shards[0]) in documents()[0] + "<|endoftext|>" + documents()[1]
    assert part.after(COLUMNS).names == ("text",)
    again = fitted(Tokenise(tokenizer=str(tmp_path), sequence_tokens=32))
    assert again.tokenizer == part.tokenizer


def test_large_vocabulary_uses_uint32(tmp_path: Path) -> None:
    model = byte_coder().model
    model.add_tokens([f"word{number}" for number in range(1 << 16)])
    coder = tokenizer_module.parse_coder(model.to_str())
    facts = write_shard([["word65535 word0"]], coder, 2, tmp_path / "a.bin")
    assert facts.dtype == "uint32"
    assert coder.decode(read_tokens([tmp_path / "a.bin"])[0]).startswith("word65535")


def test_long_text_is_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(documents()[:20])
    whole = byte_coder().encode([text])[0].tolist()
    monkeypatch.setattr(tokenizer_module, "MAX_CHARACTERS", 1000)
    assert byte_coder().encode([text, "x" * 5000])[0].tolist() == whole
    assert len(byte_coder().encode(["x" * 5000])[0]) == 5000


def test_text_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.datasets.text.tokenise.SAMPLE_CHARACTERS", 10)
    merged = TextSample(texts=("abcd", "efg")).merge(TextSample(texts=("hijklm", "n")))
    assert merged.texts == ("abcd", "efg", "hij")
    request = TextSampleRequest(column="text")
    rows = pl.DataFrame({"text": ["abcdefgh", None, "ij", "klm"], "__row": [0, 1, 2, 3]})
    assert request.collect(rows).texts == ("abcdefgh", "ij")
    later = rows.with_columns(pl.col("__row") + 4)
    assert request.collect(later).texts == ("abcde",)  # the second partition brings half as much


def test_wrong_tokenizer_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tokenizer"):
        load_coder(tmp_path / "missing.json")
    for name, contents in (("a.json", b"{}"), ("b.json", b"\xff\xfe\x00garbage"), ("c.json", b"")):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(InputError, match="not a tokenizer"):
            load_coder(tmp_path / name)
    byte_coder("<eos>").save(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match=r"name one of its special tokens: <eos>"):
        load_coder(tmp_path)
    with pytest.raises(InputError, match="both `tokenizer` and `vocabulary`"):
        Tokenise(tokenizer=str(tmp_path), vocabulary=500).bind(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="vocabulary"):
        train_coder([["a"]], 10)
    with pytest.raises(InputError, match="1 tokens is out of range"):
        Tokenise(sequence_tokens=1).bind(COLUMNS, "steps[0]")


def test_wrong_shards_raise_input_error(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    with pytest.raises(InputError, match="no such shard"):
        read_tokens([file])
    with pytest.raises(InputError, match="no shards"):
        read_tokens([])
    write_shard([documents()[:3]], byte_coder(), 16, file)
    write_shard([documents()[:3]], byte_coder(), 32, tmp_path / "b.bin")
    with pytest.raises(InputError, match="packed differently"):
        read_tokens([file, tmp_path / "b.bin"])
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match="bytes instead of"):
        read_tokens([file])
