"""Traces of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.simulate.serving.trace import parse_trace, read_trace

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


def test_requests_are_read_in_order_of_arrival_from_zero() -> None:
    found = parse_trace(HEADER + "12.5,100,20\n10,300.0,5\n\n", "t.csv")
    assert found.arrived_s.tolist() == [0.0, 2.5]
    assert found.prompt_tokens.tolist() == [300, 100]
    assert found.output_tokens.tolist() == [5, 20]


def test_trace_columns_may_have_any_order() -> None:
    text = "num_decode_tokens,user,arrived_at,num_prefill_tokens\n7,me,0,9\n"
    assert parse_trace(text, "t.csv").output_tokens.tolist() == [7]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "t.csv:1", "the file is empty"),
        (HEADER, "t.csv:2", "no requests"),
        (
            "time,prompt\n1,2\n",
            "t.csv:1",
            "no column arrived_at, num_prefill_tokens, num_decode_tokens",
        ),
        (HEADER + "0,10,5\n1,x,5\n", "t.csv:3", 'num_prefill_tokens: "x" is not a number'),
        (HEADER + "0,10,0\n", "t.csv:2", "num_decode_tokens: 0"),
        (HEADER + "-1,10,5\n", "t.csv:2", "arrived_at: -1"),
        (HEADER + "nan,10,5\n", "t.csv:2", "arrived_at: nan"),
        (HEADER + "0,1.5,5\n", "t.csv:2", "num_prefill_tokens: 1.5"),
        (HEADER + "0,10\n", "t.csv:2", "2 cells"),
        (HEADER + "0,1e300,5\n", "t.csv:2", "num_prefill_tokens: 1e300"),
    ],
)
def test_invalid_trace_names_line_and_fix(text: str, where: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_trace(text, "t.csv")
    problem = caught.value.problems[0]
    assert problem.where == where
    assert what in problem.what
    assert problem.fix


def test_all_invalid_lines_are_reported() -> None:
    with pytest.raises(InputError) as caught:
        parse_trace(HEADER + "a,1,1\n0,b,1\n0,1,c\n", "t.csv")
    assert [problem.where for problem in caught.value.problems] == ["t.csv:2", "t.csv:3", "t.csv:4"]


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_trace(tmp_path / "none.csv")


def test_trace_with_impossible_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"span 1e\+300 s"):
        parse_trace("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n1e300,1,1\n", "t.csv")


def test_large_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    line = f"1.5,100,10,{'x' * 1000}\n"
    path.write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens,note\n" + line * 17_000, encoding="utf-8"
    )
    assert path.stat().st_size > 16 << 20
    assert read_trace(path).count == 17_000
