"""Tokenizers and packed tokens: every text comes back, counts reconcile, bad shards are refused."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import normalizers

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.text import byte_coder, open_coder, read_tokens, train_coder
from gpuyard.datasets.text import tokenizer as tokenizer_module
from gpuyard.datasets.text.tokenise import TextSample, TextSampleNeed, Tokenise, Tokens
from gpuyard.datasets.text.tokens import write_shard
from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, RefusedError

from .corpus import documents

COLUMNS = Columns(items=(Column(name="path", dtype="String"), Column(name="text", dtype="String")))
ODD = ["x <|endoftext|> y", "日本 😀 \u0000 e\u0301", "\ufeff", " ", "\r\n\t", "🏳️‍🌈", "ﷺ", "<|endoftext|>"]


def fitted(step: Tokenise, texts: list[str] | None = None) -> Tokens:
    """The step fitted on some texts."""
    needs = step.bound(COLUMNS, "steps[0]").needs(COLUMNS)
    frame = pl.DataFrame({"text": texts or []}, schema={"text": pl.String})
    return step.fitted({need: need.collect(frame) for need in needs}, COLUMNS)[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("trained", [False, True])
def test_texts_come_back_as_they_were(trained: bool) -> None:
    coder = train_coder([documents()[:100]], 800) if trained else byte_coder()
    assert coder.vocabulary_count == (800 if trained else 257)
    texts = [*documents()[:50], *ODD]
    for text, tokens in zip(texts, coder.encoded(texts), strict=True):
        assert coder.decoded(tokens) == text
        assert coder.end_token not in tokens  # a text cannot end itself
    if trained:
        assert sum(map(len, coder.encoded(texts))) < 0.5 * sum(len(text.encode()) for text in texts)


@given(st.text(max_size=40))
@hypothesis_settings(max_examples=100)
def test_the_table_of_bytes_gives_what_the_tokenizer_gives(text: str) -> None:
    coder = byte_coder()
    assert coder.byte_tokens is not None
    encoding = coder.model.encode(text, add_special_tokens=False)
    assert coder.encoded([text])[0].tolist() == encoding.ids


def test_only_plain_bytes_have_a_table() -> None:
    coder = byte_coder()
    assert tokenizer_module.coder_of(coder.model.to_str()).byte_tokens == coder.byte_tokens  # as a run reads it back
    trained = train_coder([documents()[:20]], 300)
    assert trained.byte_tokens is None
    lowered = tokenizer_module.coder_of(coder.model.to_str()).model
    lowered.normalizer = normalizers.Lowercase()
    assert tokenizer_module.coder_of(lowered.to_str()).byte_tokens is None


def test_training_is_repeatable() -> None:
    first, second = (train_coder([documents()[:60], documents()[60:120]], 500).model.to_str() for _ in range(2))
    assert first == second


def test_packing_keeps_every_token_in_order(tmp_path: Path) -> None:
    coder = byte_coder()
    texts = [*documents()[:30], None, "", *ODD]
    facts = write_shard([texts[:7], texts[7:]], coder, 64, tmp_path / "part-0.bin")
    present = [text for text in texts if text]
    stream = np.concatenate([[*tokens, coder.end_token] for tokens in coder.encoded(present)])
    assert facts.in_tokens == len(stream) == facts.packed_tokens + facts.left_tokens
    assert facts.left_tokens < 64
    assert (facts.texts_count, facts.empty_count) == (len(present), 2)
    shards = read_tokens([tmp_path / "part-0.bin"])
    assert shards[:].ravel().tolist() == stream[: facts.packed_tokens].tolist()
    assert facts.sha256 == hashlib.sha256((tmp_path / "part-0.bin").read_bytes()).hexdigest()
    assert (stream == coder.end_token).sum() == len(present)  # boundaries are kept, and none is made up
    segments = shards.texts_of(shards[:])
    assert segments.shape == shards[:].shape
    assert segments[:, 0].max() == 0
    assert int(segments.max()) >= 1


@given(st.lists(st.one_of(st.none(), st.text(max_size=30)), max_size=8), st.integers(2, 20))
@hypothesis_settings(max_examples=40)
def test_tokens_reconcile_for_any_text(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], size: int
) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    facts = write_shard([texts], byte_coder(), size, folder / "a.bin")
    want = sum(len(text.encode()) + 1 for text in texts if text)
    assert facts.in_tokens == want
    assert facts.packed_tokens == want // size * size
    assert facts.left_tokens == want % size
    assert facts.texts_count + facts.empty_count == len(texts)


def test_shards_are_one_array(tmp_path: Path) -> None:
    coder = byte_coder()
    files = [tmp_path / f"part-{number}.bin" for number in range(3)]
    for number, file in enumerate(files):
        write_shard([documents()[number * 5 : number * 5 + 5] if number != 1 else []], coder, 128, file)
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


def test_the_step_writes_shards_with_its_tokenizer(tmp_path: Path) -> None:
    part = fitted(Tokenise(vocabulary=400, sequence_tokens=32), list(documents()[:40]))
    assert load_json(dump_json(part), Tokens) == part
    frame = pl.DataFrame({"path": ["a"] * 40, "text": documents()[:40]})
    writer = part.writer()
    samples = writer.write(frame, str(tmp_path / f"part-0{writer.suffix}"))
    shards = read_tokens([tmp_path / "part-0.bin"])
    assert len(shards) == samples > 100
    coder = open_coder(shards.tokenizer)
    assert coder.decoded(shards[0]) in documents()[0] + "<|endoftext|>" + documents()[1]
    assert part.after(COLUMNS).names == ("text",)
    again = fitted(Tokenise(tokenizer=str(tmp_path), sequence_tokens=32))
    assert again.tokenizer == part.tokenizer


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    model = byte_coder().model
    model.add_tokens([f"word{number}" for number in range(1 << 16)])
    coder = tokenizer_module.coder_of(model.to_str())
    facts = write_shard([["word65535 word0"]], coder, 2, tmp_path / "a.bin")
    assert facts.dtype == "uint32"
    assert coder.decoded(read_tokens([tmp_path / "a.bin"])[0]).startswith("word65535")


def test_a_huge_line_is_encoded_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(documents()[:20])
    whole = byte_coder().encoded([text])[0].tolist()
    monkeypatch.setattr(tokenizer_module, "LONGEST", 1000)
    assert byte_coder().encoded([text, "x" * 5000])[0].tolist() == whole
    assert len(byte_coder().encoded(["x" * 5000])[0]) == 5000


def test_samples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.datasets.text.tokenise.SAMPLE_CHARACTERS", 10)
    merged = TextSample(texts=("abcd", "efg")).merged(TextSample(texts=("hijklm", "n")))
    assert merged.texts == ("abcd", "efg", "hij")
    need = TextSampleNeed(column="text")
    rows = pl.DataFrame({"text": ["abcdefgh", None, "ij", "klm"], "__row": [0, 1, 2, 3]})
    assert need.collect(rows).texts == ("abcdefgh", "ij")
    later = rows.with_columns(pl.col("__row") + 4)
    assert need.collect(later).texts == ("abcde",)  # the second partition brings half as much


def test_without_the_library_its_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer_module._library.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RefusedError, match=r"gpuyard\[run\]"):
        byte_coder()


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tokenizer"):
        open_coder(tmp_path / "missing.json")
    for name, contents in (("a.json", b"{}"), ("b.json", b"\xff\xfe\x00garbage"), ("c.json", b"")):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(InputError, match="not a tokenizer"):
            open_coder(tmp_path / name)
    byte_coder("<eos>").save(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match=r"name one of its special tokens: <eos>"):
        open_coder(tmp_path)
    with pytest.raises(InputError, match="both `tokenizer` and `vocabulary`"):
        Tokenise(tokenizer=str(tmp_path), vocabulary=500).bound(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="vocabulary"):
        train_coder([["a"]], 10)
    with pytest.raises(InputError, match="no sequence"):
        Tokenise(sequence_tokens=1).bound(COLUMNS, "steps[0]")


def test_what_is_no_shard_is_refused(tmp_path: Path) -> None:
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
    with pytest.raises(InputError, match="bytes where"):
        read_tokens([file])
