"""Conversations as sequences: replies are the labels, whatever the template and the tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.chat_template import ChatTemplate, read_template
from gpuyard.datasets.text.conversations import Conversations, _messages, encode
from gpuyard.datasets.text.tokenizer import byte_coder
from gpuyard.datasets.text.tokens import NOT_LEARNED
from gpuyard.errors import InputError

pytest.importorskip("jinja2")

CHATML = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TALK = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hello é"},
    {"role": "assistant", "content": "hi 😀"},
    {"role": "user", "content": "bye"},
    {"role": "assistant", "content": "see you"},
]


def labels(tokens: np.ndarray) -> str:
    """The text of the tokens that are labels."""
    return byte_coder().decode(tokens[tokens < NOT_LEARNED])


def test_labels_are_the_replies_with_the_end_of_their_turns() -> None:
    tokens = encode(byte_coder(), ChatTemplate(text=CHATML), TALK)
    whole = byte_coder().decode(tokens & ~NOT_LEARNED)
    assert whole == ChatTemplate(text=CHATML).render(TALK)
    assert labels(tokens) == "hi 😀<|end|>\nsee you<|end|>\n"


def test_template_that_rewrites_earlier_messages_is_refused() -> None:
    last_only = "{{ messages[-1].content }}"
    with pytest.raises(InputError, match="changes earlier messages"):
        ChatTemplate(text=last_only).spans(TALK)
    with pytest.raises(InputError, match="not a Jinja template"):
        ChatTemplate(text="{% if %}").render(TALK)
    with pytest.raises(InputError, match="no system messages"):
        ChatTemplate(text="{{ raise_exception('no system messages') }}").render(TALK)


def test_template_is_that_of_the_tokenizer(tmp_path: Path) -> None:
    byte_coder().save(tmp_path / "tokenizer.json")
    assert read_template(tmp_path).render(TALK[1:3]) == "hello éhi 😀"
    config = {"chat_template": CHATML, "eos_token": {"content": "<|endoftext|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert read_template(tmp_path / "tokenizer.json").eos_token == "<|endoftext|>"
    (tmp_path / "chat_template.jinja").write_text("{{ eos_token }}", encoding="utf-8")
    assert read_template(tmp_path).render(TALK) == "<|endoftext|>"


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_rows_become_padded_sequences_with_masks(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"question": f"{number} plus 1?", "answer": None if number == 3 else str(number + 1)}
        for number in range(12)
    ]
    frame = pl.DataFrame(rows)
    if suffix == "parquet":
        frame.write_parquet(tmp_path / "qa.parquet")
    else:
        frame.write_ndjson(tmp_path / "qa.jsonl")
    step = Conversations(prompt="question", response="answer", sequence_tokens=24)
    spec = DataSpec(
        source=f"qa.{suffix}",
        steps=(StepSpec(conversations=step),),
        split=SplitSpec(test_ratio=0.25),
    )
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    assert (prepared.manifest.kind, prepared.manifest.problem) == ("tokens", "language")
    shards = prepared.tokens("train")
    assert shards.masked
    assert shards.totals.empty_count + prepared.tokens("test").totals.empty_count == 1
    every = np.arange(len(shards))
    ids, learned = shards[every], shards.learned(every)
    assert ids.max() <= shards.end_token
    for row, mask in zip(ids, learned, strict=True):
        number, _, _ = byte_coder().decode(row).partition(" ")
        assert byte_coder().decode(row[mask]) == f"{int(number) + 1}<|endoftext|>"


def test_messages_are_lists_or_their_json(tmp_path: Path) -> None:
    chats = [TALK[1:3], TALK[3:]]
    (tmp_path / "tokenizer.json").write_text(byte_coder().model.to_str(), encoding="utf-8")
    step = Conversations(
        messages="talk", tokenizer="tokenizer.json", template=CHATML, sequence_tokens=64
    )
    spec = DataSpec(source="talk.parquet", steps=(StepSpec(conversations=step),))
    sequences = []
    for number, values in enumerate((chats, [json.dumps(chat) for chat in chats])):
        pl.DataFrame({"talk": values}).write_parquet(tmp_path / "talk.parquet")
        prepared = prepare(spec, base=tmp_path, out=tmp_path / f"out{number}")
        shards = prepared.tokens("train")
        sequences.append(shards[:].tolist())
        learned = byte_coder().decode(shards[:][shards.learned(np.arange(2))])
        assert learned == "hi 😀<|end|>\nsee you<|end|>\n"
    assert sequences[0] == sequences[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs `messages`"),
        ({"prompt": "a"}, "needs `messages`"),
        ({"prompt": "a", "response": "b", "messages": "c"}, "needs `messages`"),
        ({"prompt": "a", "response": "n"}, "Int64, not text"),
        ({"prompt": "a", "response": "z"}, 'no column named "z"'),
        ({"messages": "c", "sequence_tokens": 1}, "out of range"),
    ],
)
def test_settings_that_do_not_fit_raise_input_error(
    settings: dict[str, object], message: str
) -> None:
    dtypes = {"a": "String", "b": "String", "c": "List(Struct({}))", "n": "Int64"}
    columns = Columns(items=tuple(Column(name=name, dtype=dtype) for name, dtype in dtypes.items()))
    with pytest.raises(InputError, match=message):
        Conversations(**settings).bind(columns, "steps[0]")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["not JSON", "[" * 5000, '{"role": "user"}'])
def test_a_row_that_is_not_a_chat_is_wrong_input(text: str) -> None:
    with pytest.raises(InputError, match="not a list of messages"):
        _messages(text)
