"""Where numbers come from: every row names dated sources, and no row or source is there twice or for nothing."""

from __future__ import annotations

import datetime
import tomllib
from collections import Counter

import pytest

from gpuyard.catalog import Row, load_catalog
from gpuyard.catalog.load import OURS

CATALOG = load_catalog()
ROWS: list[Row] = [
    *CATALOG.chips, *CATALOG.machines, *CATALOG.platforms, *CATALOG.storage, *CATALOG.guidance, *CATALOG.graphics,
    *CATALOG.interruptions, *CATALOG.regions,
]  # fmt: skip
SOURCES = {source.name: source for source in CATALOG.sources}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_has_known_sources(row: Row) -> None:
    assert row.source
    assert len(row.source) == len(set(row.source))
    assert set(row.source) <= set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_an_address_and_a_day(name: str) -> None:
    source = SOURCES[name]
    assert source.title
    assert source.url.startswith("https://")
    assert datetime.date(2010, 1, 1) < source.date < datetime.date(2027, 1, 1)


def test_no_hardware_source_is_unused() -> None:
    named = {name for row in ROWS for name in row.source}
    listed = tomllib.loads((OURS / "sources.toml").read_text(encoding="utf-8"))["sources"]
    assert set(listed) - named == set()


def test_no_row_stands_in_two_files() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for path in OURS.glob("*.toml"):
        for kind, rows in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found.update((kind, name) for name in rows)
    assert [row for row, times in found.items() if times > 1] == []
