"""Words as numbers: TF-IDF as scikit-learn has it, merged over partitions, and the same for one row as for many."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.step import FittedStep
from gpuyard.datasets.text.features import count_terms, hashed, inverse_frequencies, term_hashes, weighted
from gpuyard.datasets.text.steps import HashWords, TermWeights, Tfidf
from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError

from .corpus import documents

COLUMNS = Columns(items=(Column(name="id", dtype="Int64"), Column(name="text", dtype="String")))


@pytest.mark.parametrize("words", [1, 2])
def test_tfidf_is_that_of_scikit_learn(words: int) -> None:
    texts = [*documents()[:120], "", "New York, new york! É é 42"]
    counts = count_terms(texts, words)
    theirs = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", ngram_range=(1, words))
    expected = theirs.fit_transform(texts).toarray()
    assert counts.terms == tuple(theirs.get_feature_names_out())
    weights = inverse_frequencies(counts.counts, counts.texts_count)
    ours = weighted(texts, words, *term_hashes(counts.terms, words), np.array(weights))
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(
    st.lists(st.one_of(st.none(), st.text(alphabet="ab cdÉß_1,.\u0301", max_size=20)), max_size=10),
    st.integers(0, 10),
    st.integers(1, 3),
)
@hypothesis_settings(max_examples=60)
def test_counts_of_partitions_add_up(texts: list[str | None], cut: int, words: int) -> None:
    whole = count_terms(texts, words)
    assert count_terms(texts[:cut], words).merged(count_terms(texts[cut:], words)) == whole
    assert whole.texts_count == len(texts)
    assert all(1 <= count <= len(texts) for count in whole.counts)


def test_the_terms_of_most_texts_are_kept() -> None:
    counts = count_terms(["a b c", "a b", "a d d d d"])
    assert counts.most_frequent(2) == (("a", 3), ("b", 2))
    assert counts.most_frequent(9, least_texts=2) == (("a", 3), ("b", 2))


def fitted_tfidf(texts: list[str | None]) -> TermWeights:
    """The step fitted on some texts."""
    step = Tfidf(terms=50, words=2).bound(COLUMNS, "steps[0]")
    need = step.needs(COLUMNS)[0]
    return step.fitted({need: need.collect(pl.DataFrame({"text": texts}))}, COLUMNS)[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["tfidf", "hash", "characters"])
def test_rows_of_a_request_are_those_of_a_partition(kind: str) -> None:
    texts: list[str | None] = [*documents()[:40], None, "", "unseen wörds only ☃", "😀"]
    part: FittedStep
    if kind == "tfidf":
        part = fitted_tfidf(texts[:30])
    else:
        unit = "word" if kind == "hash" else "character"
        part = HashWords(buckets=37, words=3, unit=unit).bound(COLUMNS, "s")  # type: ignore[arg-type]
    frame = pl.DataFrame({"id": range(len(texts)), "text": texts}, schema={"id": pl.Int64, "text": pl.String})
    after = part.after(COLUMNS)
    table = frame.lazy().with_columns(part.expressions()).select(after.names).collect()
    assert table.columns == list(after.names)
    assert "text" not in table.columns
    slots = Slots()
    run = part.compiled(slots)
    names = [name for name in after.names if name != "id"]
    for rows in ([0], [40], [41], [42], list(range(len(texts)))):
        batch = Batch(np.zeros((len(rows), slots.count)), {"text": [texts[row] for row in rows]})
        run(batch)
        np.testing.assert_array_equal(
            batch.numbers[:, slots.numbers(tuple(names))], table.select(names).to_numpy()[rows]
        )
    lengths = np.linalg.norm(table.select(names).to_numpy(), axis=1)
    assert np.all(np.isclose(lengths, 1.0) | (lengths == 0.0))
    assert lengths[40] == lengths[41] == 0.0


def test_a_fitted_step_is_saved_and_read_back() -> None:
    part = fitted_tfidf(list(documents()[:20]))
    assert load_json(dump_json(part), TermWeights) == part


def test_hashing_tells_texts_apart_and_keeps_their_likeness() -> None:
    first, second, other = hashed(["the cat sat on the mat", "the cat sat on a mat", "quarterly revenue grew"], 1, 1024)
    assert first @ second > 0.7
    assert abs(first @ other) < 0.2


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="buckets"):
        HashWords(buckets=0).bound(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="words"):
        Tfidf(words=99).bound(COLUMNS, "steps[0]")
    taken = Columns(items=(Column(name="id", dtype="String"), Column(name="id_0", dtype="Int64")))
    with pytest.raises(InputError, match='makes a column "id_0"'):
        HashWords(column="id").bound(taken, "steps[0]")
    with pytest.raises(InputError, match="no word occurs in 2 texts"):
        fitted_tfidf([None, "", "only once"])
