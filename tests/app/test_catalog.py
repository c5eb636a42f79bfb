"""Catalog queries: conditions with units, unknown values, wrong queries."""

from __future__ import annotations

import pytest

from gpuyard.app.catalog import KINDS, Query, catalog_rows, row_with_sources
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def names(catalog: Catalog, kind: str, *where: str, sort: str = "") -> list[str]:
    return [row.name for row in catalog_rows(catalog, Query(kind=kind, where=where, sort=sort))]


def test_condition_accepts_units(catalog: Catalog) -> None:
    assert "h100-sxm" in names(catalog, "chips", "memory>=80GB", "kind=gpu")
    assert "h100-sxm" in names(catalog, "chips", "bf16=989TFLOPS")
    assert "l4" not in names(catalog, "chips", "memory>=80GB")
    assert names(catalog, "chips", "memory>80GB", "memory<80GB") == []
    assert "a3-ultragpu-8g" in names(catalog, "machines", "network.fabric=3.2Tbps")


def test_every_row_is_above_below_or_unknown(catalog: Catalog) -> None:
    above, below = names(catalog, "chips", "fp8>=1PFLOPS"), names(catalog, "chips", "fp8<1PFLOPS")
    unknown = [chip.name for chip in catalog.chips if chip.dense.fp8_flop_per_s is None]
    assert sorted(above + below + unknown) == sorted(chip.name for chip in catalog.chips)
    assert unknown


def test_text_matches_by_glob_and_list_by_member(catalog: Catalog) -> None:
    assert set(names(catalog, "machines", "name=a3-*")) == {
        machine.name for machine in catalog.machines if machine.name.startswith("a3-")
    }
    tpus = names(catalog, "chips", "frameworks=jax-xla", "kind=tpu")
    assert tpus
    assert not set(tpus) & set(names(catalog, "chips", "frameworks=cuda"))
    assert set(names(catalog, "chips", "vendor~vidia")) == set(
        names(catalog, "chips", "vendor=nvidia")
    )


def test_sort_puts_unknown_values_last(catalog: Catalog) -> None:
    rates = [
        row.dense.fp8_flop_per_s for row in catalog_rows(catalog, Query(kind="chips", sort="-fp8"))
    ]  # type: ignore[attr-defined]
    known = [rate for rate in rates if rate is not None]
    assert known == sorted(known, reverse=True)
    assert rates[: len(known)] == known


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query(kind="chip"), 'no kind of row named "chip"'),
        (Query(kind="chips", where=("memory",)), '"memory" is not a condition'),
        (Query(kind="chips", where=("memroy>1GB",)), 'rows have no field "memroy"'),
        (Query(kind="chips", where=("memory>1 parsec",)), "is not a unit of data size"),
        (Query(kind="chips", where=("vendor>3",)), '"vendor" is a text, it has no order'),
        (Query(kind="machines", where=("nic_count>many",)), '"many" is not a number'),
        (Query(kind="chips", sort="speed of light"), 'rows have no field "speed of light"'),
    ],
)
def test_wrong_query_raises_input_error(catalog: Catalog, query: Query, message: str) -> None:
    with pytest.raises(InputError, match=message):
        catalog_rows(catalog, query)


def test_row_with_sources_round_trips(catalog: Catalog) -> None:
    for kind in KINDS:
        if kind == "sources":
            continue
        for row in getattr(catalog, kind):
            copy = row_with_sources(catalog, row)
            assert load_json(dump_json(copy), Catalog) == copy
            assert {source.name for source in copy.sources} == set(row.source)
