"""Parallelism layouts: valid, complete and unique."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.catalog.models import MixtureOfExperts, Transformer
from gpuyard.plan.layouts import LayoutTable, Space, parallel_layouts

SHAPE = Transformer(layers=12, hidden=768, heads=12, ffn=3072, vocab=50257)
SMALL = Space(
    tp=(1, 2, 4),
    pp=(1, 2, 3),
    cp=(1, 2),
    micro_batch=(1, 2),
    virtual_stages=(1, 2),
    sharding=(0, 1, 2),
    recompute=(0, 2),
)


def rows(found: LayoutTable) -> list[tuple[int, ...]]:
    columns = (
        found.chips,
        found.tp,
        found.pp,
        found.cp,
        found.dp,
        found.ep,
        found.micro_batch,
        found.gradient_accumulation,
        found.virtual_stages,
        found.sharding,
        found.recompute,
        found.offload,
    )
    return [tuple(int(value) for value in row) for row in zip(*columns, strict=True)]


@settings(max_examples=40)
@given(
    chips=st.sampled_from([1, 2, 4, 6, 8, 12, 24, 64]),
    batch=st.sampled_from([1, 8, 24, 64, 96]),
    domain=st.sampled_from([1, 2, 8]),
)
def test_layouts_are_valid(chips: int, batch: int, domain: int) -> None:
    found = parallel_layouts(SHAPE, 8192, batch, (chips,), domain, Space())
    for n, tp, pp, cp, dp, ep, micro, steps, stages, shard, _, _ in rows(found):
        assert tp * pp * cp * dp == n == chips
        assert micro * steps * dp == batch
        assert tp <= domain
        assert SHAPE.heads % tp == 0
        assert ep == 1
        assert SHAPE.layers % pp == 0 or (SHAPE.layers + 2) % pp == 0
        assert stages == 1 or (pp > 1 and SHAPE.layers % (pp * stages) == 0 and steps % pp == 0)
        assert shard < 2 or (pp == 1 and dp * cp > 1)
    assert len(set(rows(found))) == len(found)


def test_layouts_are_complete() -> None:
    """Against plain loops over a small space."""
    chips, batch, domain = 12, 24, 4
    expected = set()
    for tp, pp, cp, micro, stages, shard, again in itertools.product(
        SMALL.tp,
        SMALL.pp,
        SMALL.cp,
        SMALL.micro_batch,
        SMALL.virtual_stages,
        SMALL.sharding,
        SMALL.recompute,
    ):
        if tp > domain or chips % (tp * pp * cp):
            continue
        dp = chips // (tp * pp * cp)
        if batch % dp or (batch // dp) % micro:
            continue
        steps = batch // dp // micro
        if stages > 1 and (pp == 1 or SHAPE.layers % (pp * stages) or steps % pp):
            continue
        if shard == 2 and (pp > 1 or dp * cp == 1):
            continue
        expected.add((chips, tp, pp, cp, dp, 1, micro, steps, stages, shard, again, 0))
    assert set(rows(parallel_layouts(SHAPE, 8192, batch, (chips,), domain, SMALL))) == expected
    assert expected


def test_layouts_of_several_chip_counts_are_the_union() -> None:
    both = parallel_layouts(SHAPE, 2048, 64, (8, 16), 8, Space())
    each = rows(parallel_layouts(SHAPE, 2048, 64, (8,), 8, Space())) + rows(
        parallel_layouts(SHAPE, 2048, 64, (16,), 8, Space())
    )
    assert sorted(rows(both)) == sorted(each)


def test_expert_parallel_size_divides_ranks_of_stage() -> None:
    shape = Transformer(
        layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=50257,
        moe=MixtureOfExperts(experts=8, top_k=2, expert_ffn=1024),
    )
    found = parallel_layouts(shape, 4096, 64, (16,), 8, Space())
    assert set(np.unique(found.ep)) == {1, 2, 4, 8}
    assert np.all((found.dp * found.cp * found.tp) % found.ep == 0)


def test_indivisible_batch_has_no_layouts() -> None:
    assert len(parallel_layouts(SHAPE, 2048, 7, (16,), 1, Space(pp=(1,), cp=(1,)))) == 0
