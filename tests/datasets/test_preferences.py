"""Pairs of replies as sequences: the chosen conversation, then the rejected one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.app.stages import read_stages
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.preferences import Preferences
from gpuyard.datasets.text.tokenizer import byte_coder
from gpuyard.errors import InputError

pytest.importorskip("jinja2")

ROWS = [
    {"q": f"{number}?", "good": f"yes {number}", "bad": None if number == 3 else f"no {number}"}
    for number in range(12)
]


def test_rows_become_pairs_with_masks_in_every_split(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "pairs.parquet")
    step = Preferences(prompt="q", chosen="good", rejected="bad", sequence_tokens=16)
    spec = DataSpec(
        source="pairs.parquet",
        steps=(StepSpec(preferences=step),),
        split=SplitSpec(test_ratio=0.25),
    )
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    assert (prepared.manifest.kind, prepared.manifest.problem) == ("tokens", "language")
    shards = [prepared.tokens(split) for split in ("train", "test")]
    assert sum(len(item) for item in shards) == 11  # one row has no rejected reply
    for item in shards:
        assert (item.pairs, item.masked, item.sequence_tokens) == (True, True, 32)
        every = np.arange(len(item))
        for row, mask in zip(item[every], item.learned(every), strict=True):
            number, _, _ = byte_coder().decode(row).partition("?")
            for side, reply in ((slice(0, 16), "yes"), (slice(16, 32), "no")):
                text = byte_coder().decode(row[side][mask[side]])
                assert text == f"{reply} {number}<|endoftext|>"


def test_chats_are_pairs_without_a_prompt(tmp_path: Path) -> None:
    chats = [
        {
            side: [{"role": "user", "content": "a?"}, {"role": "assistant", "content": reply}]
            for side, reply in (("chosen", "b"), ("rejected", "c"))
        }
    ] * 4
    pl.DataFrame(chats).write_parquet(tmp_path / "chats.parquet")
    step = Preferences(chosen="chosen", rejected="rejected", sequence_tokens=8)
    spec = DataSpec(source="chats.parquet", steps=(StepSpec(preferences=step),))
    shards = prepare(spec, base=tmp_path, out=tmp_path / "out").tokens("train")
    row, mask = shards[0], shards.learned(np.arange(1))[0]
    sides = [
        byte_coder().decode(part[seen])
        for part, seen in zip(np.split(row, 2), np.split(mask, 2), strict=True)
    ]
    assert sides == ["b<|endoftext|>", "c<|endoftext|>"]


def test_one_column_for_both_replies_is_refused(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "pairs.parquet")
    step = Preferences(prompt="q", chosen="good", rejected="good")
    spec = DataSpec(source="pairs.parquet", steps=(StepSpec(preferences=step),))
    with pytest.raises(InputError, match="one column"):
        prepare(spec, base=tmp_path, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("train", "more", "problem"),
    [
        ("lora: {base: b}", "", "the data has pairs of replies"),
        ("lora: {base: b, dpo: {}}", "  evaluate: {folds: 0}\n", "have no scores"),
    ],
)
def test_stages_that_do_not_learn_from_pairs_are_refused_before_a_run(
    tmp_path: Path, train: str, more: str, problem: str
) -> None:
    step = "{preferences: {prompt: q, chosen: good, rejected: bad}}"
    data = f"{{source: p.parquet, steps: [{step}], split: {{test: 20%}}}}"
    file = tmp_path / "w.yaml"
    file.write_text(f"pipeline:\n  data: {data}\n  train: {{{train}}}\n{more}")
    with pytest.raises(InputError, match=problem):
        read_stages(file)
