"""Batching as algebra: every request gets its own rows, whatever arrives together, and one failure stays alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.serving.batcher import Batcher, BatchSlice, QueuedRequest
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.spec import BatchSpec


class Doubler:
    """Doubles every value; fails a batch that holds a negative one."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, requests: Sequence[QueuedRequest]) -> list[BatchSlice | Exception]:
        self.sizes.append(sum(request.size for request in requests))
        values = [value for request in requests for value in request.rows]
        if any(value < 0 for value in values):
            raise RequestError(400, "negative")
        if any(value == 13 for value in values):
            raise ValueError("a bug")
        outputs, slices, start = [[2 * value for value in values]], [], 0
        for request in requests:
            slices.append(BatchSlice(outputs, start, request.size))
            start += request.size
        return slices


def answers(
    rows: list[list[float]], spec: BatchSpec, *, inline: bool, arriving: int = 0
) -> tuple[list[object], Doubler]:
    """What each request gets, all of them sent at once."""
    compute = Doubler()

    async def run() -> list[object]:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(compute, spec, pool, inline=inline)
            batcher.arriving = arriving
            found = await asyncio.gather(
                *(batcher.submit(row, len(row)) for row in rows), return_exceptions=True
            )
            return [
                item
                if isinstance(item, BaseException)
                else item.outputs[0][item.start : item.start + item.size]
                for item in found
            ]

    return asyncio.run(run()), compute


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 3.0, 13.0, -1.0]), min_size=1, max_size=5),
        min_size=1,
        max_size=12,
    ),
    most=st.integers(1, 8),
    inline=st.booleans(),
    wait_s=st.sampled_from([0.0, 0.001]),
)
def test_every_request_gets_its_own(
    rows: list[list[float]], most: int, inline: bool, wait_s: float
) -> None:
    found, compute = answers(rows, BatchSpec(rows=most, wait_s=wait_s), inline=inline, arriving=1)
    for row, answer in zip(rows, found, strict=True):
        if any(value < 0 for value in row):
            assert isinstance(answer, RequestError)
        elif 13.0 in row:
            assert isinstance(answer, ModelError)
        else:
            assert answer == [2 * value for value in row]
    assert all(size <= max(most, max(len(row) for row in rows)) for size in compute.sizes)


@pytest.mark.parametrize("inline", [True, False])
def test_requests_that_are_there_together_are_computed_together(inline: bool) -> None:
    found, compute = answers([[1.0]] * 10, BatchSpec(rows=64), inline=inline)
    assert found == [[2.0]] * 10
    assert compute.sizes == [10]


def test_batch_never_exceeds_max_size() -> None:
    assert answers([[1.0]] * 10, BatchSpec(rows=4), inline=True)[1].sizes == [4, 4, 2]


def test_rows_whose_client_gave_up_are_not_computed() -> None:
    compute = Doubler()

    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(compute, BatchSpec(rows=64), pool, inline=True)
            gone, kept = batcher.submit([1.0], 1), batcher.submit([2.0], 1)
            gone.cancel()
            assert (await kept).outputs == [[4.0]]

    asyncio.run(run())
    assert compute.sizes == [1]
