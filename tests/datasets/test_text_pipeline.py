"""Corpora and folders of images through the whole pipeline: nothing is lost, bad files are put apart."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.datasets

from gpuyard.datasets import DataSpec, SplitSpec, Step, load_prepared, prepare
from gpuyard.datasets.images import Images, read_images
from gpuyard.datasets.source.whole import document
from gpuyard.datasets.text.steps import HashWords, NearDuplicates, Tfidf
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.datasets.text.tokenizer import byte_coder, open_coder
from gpuyard.errors import InputError
from gpuyard.report.tokens import tokens_table

from .corpus import documents, edited

PHOTOS = Path(sklearn.datasets.__file__).parent / "images"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of documents, some of them nearly the same, some no documents."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, text in enumerate(documents()[:120]):
        (folder / f"doc{number:03d}.txt").write_text(text, encoding="utf-8")
        if number < 30:
            (folder / f"later{number:03d}.txt").write_text(edited(text, 0.003, number), encoding="utf-8")
    (folder / "bad.txt").write_bytes("café".encode("latin-1"))
    (folder / "binary.txt").write_bytes(bytes(range(128)))
    (folder / "empty.txt").write_bytes(b"")
    (folder / "marked.txt").write_bytes("\ufeffwith a mark".encode())
    return tmp_path


def test_a_corpus_becomes_tokens(corpus: Path) -> None:
    spec = DataSpec(
        source="corpus",
        steps=(Step(near_duplicates=NearDuplicates()), Step(tokenise=Tokenise(vocabulary=600, sequence_tokens=64))),
        split=SplitSpec(test_ratio=0.2, seed=1),
    )
    prepared = prepare(spec, base=corpus, out=corpus / "out")
    manifest = prepared.manifest
    assert (manifest.kind, manifest.problem, manifest.sequence_tokens) == ("tokens", "language", 64)
    assert manifest.rows_in == 154 == manifest.rows_out + manifest.dropped + manifest.quarantined
    assert manifest.quarantined == 2
    assert manifest.dropped >= 28
    shown = pl.concat([pl.read_parquet(corpus / "out" / shard.path) for shard in manifest.quarantine])
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
        words = open_coder(shards.tokenizer).decoded(shards[0])
        assert any(words.split("<|endoftext|>")[0] in text for text in documents())
    assert texts == manifest.rows_out  # every document is accounted for
    shown = tokens_table(prepared)
    assert [row[0] for row in shown.rows] == ["train", "test"]
    assert sum(int(row[2].replace(",", "")) + int(row[3]) for row in shown.rows) == manifest.rows_out
    assert load_prepared(corpus / "out").manifest == manifest


def test_a_tokenizer_is_found_beside_the_workload_and_is_in_the_version(corpus: Path) -> None:
    byte_coder().save(corpus / "tokenizer.json")
    spec = DataSpec(source="corpus", steps=(Step(tokenise=Tokenise(tokenizer="tokenizer.json", sequence_tokens=128)),))
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


@pytest.mark.parametrize("step", [Step(tfidf=Tfidf(terms=40)), Step(hash_words=HashWords(buckets=32, words=2))])
def test_texts_become_features(tmp_path: Path, step: Step) -> None:
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


def test_a_folder_of_images_becomes_arrays(tmp_path: Path) -> None:
    if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
        pytest.importorskip("PIL")
    for name in ("china", "flower"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path / "photos" / name)
    (tmp_path / "photos" / "china" / "bad.png").write_bytes(b"no image")
    (tmp_path / "photos" / "china" / "empty.jpg").write_bytes(b"")
    spec = DataSpec(source="photos", label="class", steps=(Step(images=Images(height=32, width=48)),))
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    manifest = prepared.manifest
    assert (manifest.kind, manifest.classes) == ("images", ("china", "flower"))
    assert (manifest.rows_in, manifest.rows_out, manifest.quarantined) == (4, 2, 2)
    shards = read_images(prepared.paths("train"))
    assert next(shards.batches(2)).shape == (2, 32, 48, 3)
    assert shards.labels().tolist() == [0, 1]
    apart = pl.concat([pl.read_parquet(tmp_path / "out" / shard.path) for shard in manifest.quarantine])
    assert sorted(Path(path).name for path in apart["path"]) == ["bad.png", "empty.jpg"]


def test_documents_are_told_from_other_files() -> None:
    assert document(b"") == ("", "")
    assert document("\ufeffé".encode()) == ("é", "")
    assert document("é".encode("latin-1"))[1] == "not utf-8 text (byte 0xe9 at 0)"
    assert document("é".encode("latin-1"), "latin-1") == ("é", "")
    assert document(b"a\0b")[1] == "not text: a zero character at 1"
    assert document("text".encode("utf-16"), "utf-16") == ("text", "")
    assert document(b"\xff\xfea", "utf-16")[1].startswith("not utf-16 text")


def test_a_cap_that_the_compiled_steps_would_exceed_is_refused(corpus: Path) -> None:
    plain, steps = DataSpec(source="corpus"), (Step(hash_words=HashWords(buckets=8)),)
    assert prepare(plain, base=corpus, out=corpus / "plain", memory_bytes=290e6).manifest.rows_out
    with pytest.raises(InputError, match="290MB is too little to work in with hash_words\n  fix: give 430MB or more"):
        prepare(DataSpec(source="corpus", steps=steps), base=corpus, out=corpus / "out", memory_bytes=290e6)
