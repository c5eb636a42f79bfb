"""Recorded traffic: the busiest stretch, and what a load says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.simulate.serving.load import Requests
from gpuyard.simulate.serving.load_traces import busiest, read_load
from gpuyard.workload.read import parse_workload

CATALOG = load_catalog()


def requests(arrived: list[float]) -> Requests:
    ones = np.arange(1, len(arrived) + 1)
    return Requests(
        arrived_s=np.array(sorted(arrived)),
        prompt_tokens=ones,
        output_tokens=ones,
        cached_tokens=np.zeros_like(ones),
    )


@given(st.lists(st.floats(0.0, 1e4), min_size=3, max_size=60), st.integers(2, 20))
def test_no_other_stretch_is_shorter(arrived: list[float], most: int) -> None:
    whole = requests(arrived)
    part = busiest(whole, most)
    assert part.count == min(most, whole.count)
    if whole.count > most:
        spans = [
            whole.arrived_s[i + most - 1] - whole.arrived_s[i]
            for i in range(whole.count - most + 1)
        ]
        assert part.arrived_s[-1] == pytest.approx(min(spans))
        assert part.arrived_s[0] == 0.0


def test_trace_is_read_as_load(tmp_path: Path) -> None:
    lines = [
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        *(f"{i / 2},100,{10 + i % 3}" for i in range(41)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    text = "task: inference\nmodel: llama-3-8b\ntraffic: {trace: t.csv, prefix_hit: 50%}\n"
    load, trace = read_load(parse_workload(text, "w.yaml", CATALOG), tmp_path)
    assert trace is not None
    assert trace.count == 41
    assert load.requests_per_s == pytest.approx(41 / 20)
    assert load.input_tokens == pytest.approx(100.0)
    assert load.new_tokens == pytest.approx(50.0)
    assert (trace.cached_tokens == 50).all()
    assert load.long_output_tokens == pytest.approx(12.0)


def test_requests_beyond_context_are_reported(tmp_path: Path) -> None:
    lines = [
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        *(f"{i},{9000 if i == 3 else 100},10" for i in range(9)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    text = "task: inference\nmodel: llama-3-8b\ntraffic: {trace: t.csv}\n"
    load, _ = read_load(parse_workload(text, "w.yaml", CATALOG), tmp_path)
    assert any(
        note.startswith("1 of the 9 requests are longer than the model's context of 8,192")
        for note in load.notes
    )
