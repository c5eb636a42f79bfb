"""Near duplicates: exact similarity, measured recall, determinism, unusual texts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.text.minhash import Shingles, banding_for, near_duplicates
from gpuyard.datasets.text.steps import NearDuplicates
from gpuyard.datasets.text.words import flatten_texts, lower_case_table
from gpuyard.datasets.text.words_kernel import shingle_sets
from gpuyard.errors import InputError

from .corpus import documents, edited, jaccard, shingles

TEXT = Columns(items=(Column(name="text", dtype="String"), Column(name="id", dtype="Int64")))


def test_shingles_match_python_reference() -> None:
    texts = [*documents()[:60], "naïve Straße ÉCOLE — “quoted” e_f 42 日本語", "", "x"]
    data, offsets = flatten_texts(texts)
    for width in (1, 3, 5):
        _, begins = shingle_sets(data, offsets, lower_case_table(), True, width)
        assert np.diff(begins).tolist() == [len(shingles(text, width)) for text in texts]


def test_near_duplicates_have_full_precision_and_promised_recall() -> None:
    originals = documents()[:250]
    copies = [
        edited(text, part, 10 * number + step)
        for number, text in enumerate(originals)
        for step, part in enumerate((0.005, 0.01, 0.02, 0.05))
    ]
    texts = [*originals, *copies]
    matches = near_duplicates(texts, threshold_ratio=0.8)
    for copy in np.flatnonzero(~matches.unique).tolist():
        exact = jaccard(texts[copy], texts[matches.of[copy]])
        assert matches.of[copy] < copy
        assert matches.unique[matches.of[copy]]
        assert exact >= 0.8  # precision 1: whatever is dropped is that similar
        assert matches.similarity_ratio[copy] == pytest.approx(exact, abs=1e-12)
    known = [
        len(originals) + index
        for index, copy in enumerate(copies)
        if jaccard(originals[index // 4], copy) >= 0.8 and matches.unique[index // 4]
    ]
    detected = [copy for copy in known if not matches.unique[copy]]
    assert len(known) > 300
    assert len(detected) / len(known) >= 0.98  # 0.95 at the threshold itself, more above it
    assert matches.compared_count < len(texts) ** 2 / 100  # few pairs are compared at all


def test_banding_meets_recall_at_threshold() -> None:
    banding = banding_for(0.8)
    assert banding.candidate_ratio(0.8) >= 0.95
    assert banding.candidate_ratio(0.3) < 0.02
    assert banding.bands * banding.rows <= 128
    assert banding_for(0.5).rows < banding.rows  # a lower threshold needs shorter bands


def test_partitioning_does_not_change_near_duplicates() -> None:
    texts = [*documents()[:80], *(edited(text, 0.01, 1) for text in documents()[:80]), None, ""]
    matches = near_duplicates(texts)
    step = NearDuplicates().bind(TEXT, "steps[0]")
    for cut in (1, 37, 100):
        parts = [
            pl.DataFrame({"text": texts[:cut]}),
            pl.DataFrame({"text": texts[cut:]}, schema={"text": pl.String}),
        ]
        first, second = step.rows_to_drop([step.mark(part) for part in parts], 1e9)
        assert sorted([*first, *(second + cut)]) == np.flatnonzero(~matches.unique).tolist()
    assert (~matches.unique).sum() > 50


def test_near_duplicates_of_empty_and_unusual_texts() -> None:
    odd = [
        "",
        None,
        "   \n\t",
        "!!! ... ---",
        "x",
        "x",
        "X.",
        "\ufeff",
        "a" * 300_000,
        "a" * 300_000,
        "\ud800 lone",
        "😀 😀 😀",
    ]
    matches = near_duplicates(odd)
    assert np.flatnonzero(~matches.unique).tolist() == [
        5,
        6,
        9,
    ]  # a text without words has no duplicates
    assert matches.of[[5, 6, 9]].tolist() == [4, 4, 8]
    assert near_duplicates([]).of.tolist() == []
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
    chars = Shingles(unit="character", width=3)
    assert near_duplicates([japanese, japanese[:-2]], shingles=chars).of.tolist() == [-1, 0]
    assert near_duplicates(
        [japanese, "全然違う文章です。今日は天気がいいですね。"], shingles=chars
    ).of.tolist() == [
        -1,
        -1,
    ]


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(1, 4))
@hypothesis_settings(max_examples=60)
def test_equal_texts_are_near_duplicates(texts: list[str], width: int) -> None:
    matches = near_duplicates([*texts, *texts], shingles=Shingles(width=width))
    for index, text in enumerate(texts):
        if any(letter.isalnum() for letter in text):
            assert not matches.unique[len(texts) + index]
    assert all(matches.of[number] < number for number in range(len(matches.of)))


def test_wrong_near_duplicates_settings_raise_input_error() -> None:
    with pytest.raises(InputError, match="threshold"):
        NearDuplicates(threshold=1.5).bind(TEXT, "steps[0]")
    with pytest.raises(InputError, match="width"):
        NearDuplicates(width=0).bind(TEXT, "steps[0]")
    with pytest.raises(InputError, match='no column named "txt"'):
        NearDuplicates(column="txt").bind(TEXT, "steps[0]")
    with pytest.raises(InputError, match="Int64"):
        NearDuplicates(column="id").bind(TEXT, "steps[0]")
