"""Near duplicates: exact similarity, measured recall, determinism, and texts that are hardly texts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.text import Shingles, near_duplicates
from gpuyard.datasets.text.minhash import banding_for
from gpuyard.datasets.text.steps import NearDuplicates
from gpuyard.datasets.text.words import flat, folded, shingle_sets
from gpuyard.errors import InputError

from .corpus import documents, edited, jaccard, shingles

TEXT = Columns(items=(Column(name="text", dtype="String"), Column(name="id", dtype="Int64")))


def test_shingles_are_those_of_python() -> None:
    texts = [*documents()[:60], "naïve Straße ÉCOLE — “quoted” e_f 42 日本語", "", "x"]
    data, offsets = flat(texts)
    for width in (1, 3, 5):
        _, begins = shingle_sets(data, offsets, folded(), True, width)
        assert np.diff(begins).tolist() == [len(shingles(text, width)) for text in texts]


def test_precision_is_whole_and_recall_is_what_banding_promises() -> None:
    """Every document with copies of it at several distances; all pairs are known by their sets."""
    originals = documents()[:250]
    copies = [edited(text, part, 10 * number + step) for number, text in enumerate(originals)
              for step, part in enumerate((0.005, 0.01, 0.02, 0.05))]  # fmt: skip
    texts = [*originals, *copies]
    twins = near_duplicates(texts, threshold_ratio=0.8)
    for copy in np.flatnonzero(~twins.kept).tolist():
        exact = jaccard(texts[copy], texts[twins.of[copy]])
        assert twins.of[copy] < copy
        assert twins.kept[twins.of[copy]]
        assert exact >= 0.8  # precision 1: whatever is dropped is that similar
        assert twins.similarity_ratio[copy] == pytest.approx(exact, abs=1e-12)
    known = [
        len(originals) + index
        for index, copy in enumerate(copies)
        if jaccard(originals[index // 4], copy) >= 0.8 and twins.kept[index // 4]
    ]
    found = [copy for copy in known if not twins.kept[copy]]
    assert len(known) > 300
    assert len(found) / len(known) >= 0.98  # 0.95 at the threshold itself, more above it
    assert twins.compared_count < len(texts) ** 2 / 100  # few pairs are compared at all


def test_the_estimate_of_meeting_holds() -> None:
    banding = banding_for(0.8)
    assert banding.meet_ratio(0.8) >= 0.95
    assert banding.meet_ratio(0.3) < 0.02
    assert banding.bands * banding.rows <= 128
    assert banding_for(0.5).rows < banding.rows  # a lower threshold needs wider nets


def test_the_same_texts_give_the_same_twins_in_any_partition() -> None:
    texts = [*documents()[:80], *(edited(text, 0.01, 1) for text in documents()[:80]), None, ""]
    twins = near_duplicates(texts)
    step = NearDuplicates().bound(TEXT, "steps[0]")
    for cut in (1, 37, 100):
        parts = [pl.DataFrame({"text": texts[:cut]}), pl.DataFrame({"text": texts[cut:]}, schema={"text": pl.String})]
        first, second = step.doomed([step.mark(part) for part in parts], 1e9)
        assert sorted([*first, *(second + cut)]) == np.flatnonzero(~twins.kept).tolist()
    assert (~twins.kept).sum() > 50


def test_hardly_texts() -> None:
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
    twins = near_duplicates(odd)
    assert np.flatnonzero(~twins.kept).tolist() == [5, 6, 9]  # texts without words are duplicates of nothing
    assert twins.of[[5, 6, 9]].tolist() == [4, 4, 8]
    assert near_duplicates([]).of.tolist() == []
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
    chars = Shingles(unit="character", width=3)
    assert near_duplicates([japanese, japanese[:-2]], shingles=chars).of.tolist() == [-1, 0]
    assert near_duplicates([japanese, "全然違う文章です。今日は天気がいいですね。"], shingles=chars).of.tolist() == [
        -1,
        -1,
    ]


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(1, 4))
@hypothesis_settings(max_examples=60)
def test_any_text_is_hashed_and_equal_texts_are_twins(texts: list[str], width: int) -> None:
    twins = near_duplicates([*texts, *texts], shingles=Shingles(width=width))
    for index, text in enumerate(texts):
        if any(letter.isalnum() for letter in text):
            assert not twins.kept[len(texts) + index]
    assert all(twins.of[number] < number for number in range(len(twins.of)))


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="threshold"):
        NearDuplicates(threshold=1.5).bound(TEXT, "steps[0]")
    with pytest.raises(InputError, match="width"):
        NearDuplicates(width=0).bound(TEXT, "steps[0]")
    with pytest.raises(InputError, match='no column named "txt"'):
        NearDuplicates(column="txt").bound(TEXT, "steps[0]")
    with pytest.raises(InputError, match="Int64"):
        NearDuplicates(column="id").bound(TEXT, "steps[0]")
