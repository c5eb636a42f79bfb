"""Text features: TF-IDF matches scikit-learn, over partitions and for single rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.step import FittedStep
from gpuyard.datasets.text.features import (
    count_terms,
    hash_features,
    inverse_frequencies,
    term_hashes,
    tfidf_features,
)
from gpuyard.datasets.text.steps import HashWords, TermWeights, Tfidf
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError

from .corpus import documents

COLUMNS = Columns(items=(Column(name="id", dtype="Int64"), Column(name="text", dtype="String")))


@pytest.mark.parametrize("words", [1, 2])
def test_tfidf_matches_scikit_learn(words: int) -> None:
    texts = [*documents()[:120], "", "New York, new york! É é 42"]
    counts = count_terms(texts, words)
    theirs = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", ngram_range=(1, words))
    expected = theirs.fit_transform(texts).toarray()
    assert counts.terms == tuple(theirs.get_feature_names_out())
    weights = inverse_frequencies(counts.counts, counts.texts_count)
    ours = tfidf_features(texts, words, *term_hashes(counts.terms, words), np.array(weights))
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(
    st.lists(st.one_of(st.none(), st.text(alphabet="ab cdÉß_1,.\u0301", max_size=20)), max_size=10),
    st.integers(0, 10),
    st.integers(1, 3),
)
@hypothesis_settings(max_examples=60)
def test_merged_term_counts_match_full_corpus(
    texts: list[str | None], cut: int, words: int
) -> None:
    whole = count_terms(texts, words)
    assert count_terms(texts[:cut], words).merge(count_terms(texts[cut:], words)) == whole
    assert whole.texts_count == len(texts)
    assert all(1 <= count <= len(texts) for count in whole.counts)


def test_most_frequent_terms_are_selected() -> None:
    counts = count_terms(["a b c", "a b", "a d d d d"])
    assert counts.most_frequent(2) == (("a", 3), ("b", 2))
    assert counts.most_frequent(9, least_texts=2) == (("a", 3), ("b", 2))


def fitted_tfidf(texts: list[str | None]) -> TermWeights:
    step = Tfidf(terms=50, words=2).bind(COLUMNS, "steps[0]")
    request = step.requests(COLUMNS)[0]
    return step.fit_state({request: request.collect(pl.DataFrame({"text": texts}))}, COLUMNS)[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["tfidf", "hash", "characters"])
def test_request_rows_match_partition_rows(kind: str) -> None:
    texts: list[str | None] = [*documents()[:40], None, "", "unseen wörds only ☃", "😀"]
    part: FittedStep
    if kind == "tfidf":
        part = fitted_tfidf(texts[:30])
    else:
        unit = "word" if kind == "hash" else "character"
        part = HashWords(buckets=37, words=3, unit=unit).bind(COLUMNS, "s")  # type: ignore[arg-type]
    frame = pl.DataFrame(
        {"id": range(len(texts)), "text": texts}, schema={"id": pl.Int64, "text": pl.String}
    )
    after = part.after(COLUMNS)
    table = frame.lazy().with_columns(part.expressions()).select(after.names).collect()
    assert table.columns == list(after.names)
    assert "text" not in table.columns
    slots = Slots()
    run = part.numpy_operation(slots)
    names = [name for name in after.names if name != "id"]
    for rows in ([0], [40], [41], [42], list(range(len(texts)))):
        batch = RowBatch(np.zeros((len(rows), slots.count)), {"text": [texts[row] for row in rows]})
        run(batch)
        np.testing.assert_array_equal(
            batch.numbers[:, slots.numbers(tuple(names))], table.select(names).to_numpy()[rows]
        )
    lengths = np.linalg.norm(table.select(names).to_numpy(), axis=1)
    assert np.all(np.isclose(lengths, 1.0) | (lengths == 0.0))
    assert lengths[40] == lengths[41] == 0.0


def test_term_weights_round_trip_as_json() -> None:
    part = fitted_tfidf(list(documents()[:20]))
    assert load_json(dump_json(part), TermWeights) == part


def test_hash_features_preserve_similarity() -> None:
    first, second, other = hash_features(
        ["the cat sat on the mat", "the cat sat on a mat", "quarterly revenue grew"], 1, 1024
    )
    assert first @ second > 0.7
    assert abs(first @ other) < 0.2


def test_wrong_text_feature_settings_raise_input_error() -> None:
    with pytest.raises(InputError, match="buckets"):
        HashWords(buckets=0).bind(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="words"):
        Tfidf(words=99).bind(COLUMNS, "steps[0]")
    taken = Columns(items=(Column(name="id", dtype="String"), Column(name="id_0", dtype="Int64")))
    with pytest.raises(InputError, match='adds a column "id_0"'):
        HashWords(column="id").bind(taken, "steps[0]")
    with pytest.raises(InputError, match="no word occurs in 2 texts"):
        fitted_tfidf([None, "", "only once"])
