"""Text and image datasets end to end: no file is lost, bad files are quarantined."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.datasets

from gpuyard.datasets.images import Images, read_images
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import load_prepared
from gpuyard.datasets.source.file_rows import decode_document
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.steps import HashWords, NearDuplicates, Tfidf
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.datasets.text.tokenizer import byte_coder, load_coder
from gpuyard.errors import InputError
from gpuyard.report.tokens import tokens_table

from .corpus import documents, edited

PHOTOS = Path(sklearn.datasets.__file__).parent / "images"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of documents: some nearly equal, some not text."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, text in enumerate(documents()[:120]):
        (folder / f"doc{number:03d}.txt").write_text(text, encoding="utf-8")
        if number < 30:
            (folder / f"later{number:03d}.txt").write_text(
                edited(text, 0.003, number), encoding="utf-8"
            )
    (folder / "bad.txt").write_bytes("café".encode("latin-1"))
    (folder / "binary.txt").write_bytes(bytes(range(128)))
    (folder / "empty.txt").write_bytes(b"")
    (folder / "marked.txt").write_bytes("\ufeffwith a mark".encode())
    return tmp_path


def test_corpus_is_deduplicated_and_packed(corpus: Path) -> None:
    spec = DataSpec(
        source="corpus",
        steps=(
            StepSpec(near_duplicates=NearDuplicates()),
            StepSpec(tokenise=Tokenise(vocabulary=600, sequence_tokens=64)),
        ),
        split=SplitSpec(test_ratio=0.2, seed=1),
    )
    prepared = prepare(spec, base=corpus, out=corpus / "out")
    manifest = prepared.manifest
    assert (manifest.kind, manifest.problem, manifest.sequence_tokens) == ("tokens", "language", 64)
    assert manifest.rows_in == 154 == manifest.rows_out + manifest.dropped + manifest.quarantined
    assert manifest.quarantined == 2
    assert manifest.dropped >= 28
    shown = pl.concat(
        [pl.read_parquet(corpus / "out" / shard.path) for shard in manifest.quarantine]
    )
    assert sorted(Path(file).name for file in shown["file"]) == ["bad.txt", "binary.txt"]
    texts = 0
    for split in ("train", "test"):
        shards = prepared.tokens(split)
        facts = shards.facts
        totals = shards.totals
        assert totals.in_tokens == totals.packed_tokens + totals.left_tokens > 0
        assert len(shards) == sum(fact.sequences_count for fact in facts)
        assert all(fact.in_tokens == fact.packed_tokens + fact.left_tokens for fact in facts)
        texts += sum(fact.texts_count + fact.empty_count for fact in facts)
        words = load_coder(shards.tokenizer).decode(shards[0])
        assert any(words.split("<|endoftext|>")[0] in text for text in documents())
    assert texts == manifest.rows_out  # every document is accounted for
    shown = tokens_table(prepared)
    assert [row[0] for row in shown.rows] == ["train", "test"]
    assert (
        sum(int(row[2].replace(",", "")) + int(row[3]) for row in shown.rows) == manifest.rows_out
    )
    assert load_prepared(corpus / "out").manifest == manifest


def test_tokenizer_path_is_relative_and_changes_version(corpus: Path) -> None:
    byte_coder().save(corpus / "tokenizer.json")
    spec = DataSpec(
        source="corpus",
        steps=(StepSpec(tokenise=Tokenise(tokenizer="tokenizer.json", sequence_tokens=128)),),
    )
    first = prepare(spec, base=corpus, out=corpus / "out")
    assert first.tokens("train").vocabulary_count == 257
    again = prepare(spec, base=corpus, out=corpus / "out")
    assert again.manifest == first.manifest
    coder = byte_coder()
    coder.model.add_tokens(["documentation"])
    coder.save(corpus / "tokenizer.json")
    other = prepare(spec, base=corpus, out=corpus / "out")
    assert other.manifest.version != first.manifest.version
    assert other.tokens("train").vocabulary_count == 258


@pytest.mark.parametrize(
    "step", [StepSpec(tfidf=Tfidf(terms=40)), StepSpec(hash_words=HashWords(buckets=32, words=2))]
)
def test_text_features_match_at_serving(tmp_path: Path, step: StepSpec) -> None:
    texts = documents()[:200]
    table = pl.DataFrame({"text": texts, "y": [int("return" in text.lower()) for text in texts]})
    table.write_parquet(tmp_path / "a.parquet")
    spec = DataSpec(source="a.parquet", label="y", steps=(step,), split=SplitSpec(test_ratio=0.2))
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    arrays = prepared.arrays("train")
    assert arrays.x.shape[1] in (32, 40)
    lengths = np.linalg.norm(arrays.x, axis=1)
    assert np.all(np.isclose(lengths, 1.0, atol=1e-5) | (lengths == 0.0))
    assert prepared.transform is not None
    served = prepared.transform.matrix({"text": [*texts, None, "never seen ☃"]})
    rows = {tuple(row) for row in served[: len(texts)].tolist()}
    assert {tuple(row) for row in arrays.x.tolist()} <= rows  # serving gives what training saw
    assert not served[len(texts)].any()


def test_image_folder_becomes_arrays(tmp_path: Path) -> None:
    if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
        pytest.importorskip("PIL")
    for name in ("china", "flower"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path / "photos" / name)
    (tmp_path / "photos" / "china" / "bad.png").write_bytes(b"no image")
    (tmp_path / "photos" / "china" / "empty.jpg").write_bytes(b"")
    spec = DataSpec(
        source="photos", label="class", steps=(StepSpec(images=Images(height=32, width=48)),)
    )
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    manifest = prepared.manifest
    assert (manifest.kind, manifest.classes) == ("images", ("china", "flower"))
    assert (manifest.rows_in, manifest.rows_out, manifest.quarantined) == (4, 2, 2)
    shards = read_images(prepared.paths("train"))
    assert next(shards.batches(2)).shape == (2, 32, 48, 3)
    assert shards.labels().tolist() == [0, 1]
    quarantined = pl.concat(
        [pl.read_parquet(tmp_path / "out" / shard.path) for shard in manifest.quarantine]
    )
    assert sorted(Path(path).name for path in quarantined["path"]) == ["bad.png", "empty.jpg"]


def test_decode_document_rejects_binary_and_invalid_encoding() -> None:
    assert decode_document(b"") == ("", "")
    assert decode_document("\ufeffé".encode()) == ("é", "")
    assert decode_document("é".encode("latin-1"))[1] == "not utf-8 text (byte 0xe9 at 0)"
    assert decode_document("é".encode("latin-1"), "latin-1") == ("é", "")
    assert decode_document(b"a\0b")[1] == "not text: a null character at 1"
    assert decode_document("text".encode("utf-16"), "utf-16") == ("text", "")
    assert decode_document(b"\xff\xfea", "utf-16")[1].startswith("not utf-16 text")


def test_memory_limit_includes_compiler_of_text_steps(corpus: Path) -> None:
    plain, steps = DataSpec(source="corpus"), (StepSpec(hash_words=HashWords(buckets=8)),)
    assert prepare(plain, base=corpus, out=corpus / "plain", memory_bytes=290e6).manifest.rows_out
    with pytest.raises(
        InputError,
        match="290MB is too little memory with hash_words\n  fix: set 430MB or more",
    ):
        prepare(
            DataSpec(source="corpus", steps=steps),
            base=corpus,
            out=corpus / "out",
            memory_bytes=290e6,
        )
