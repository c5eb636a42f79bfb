"""Sources: every row names dated sources, and none is duplicated or unused."""

from __future__ import annotations

import datetime
import tomllib
from collections import Counter

import pytest

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.load import BUILTIN, Row, load_catalog

CATALOG = load_catalog()
ROWS: list[Row] = [
    *CATALOG.chips, *CATALOG.machines, *CATALOG.platforms, *CATALOG.storage, *CATALOG.guidance, *CATALOG.graphics,
    *CATALOG.interruptions, *CATALOG.regions,
]  # fmt: skip
SOURCES = {source.name: source for source in CATALOG.sources}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_have_known_sources(row: Row) -> None:
    assert row.source
    assert len(row.source) == len(set(row.source))
    assert set(row.source) <= set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_sources_have_url_and_date(name: str) -> None:
    source = SOURCES[name]
    assert source.title
    assert source.url.startswith("https://")
    assert datetime.date(2010, 1, 1) < source.date < datetime.date(2027, 1, 1)


def test_hardware_sources_are_used() -> None:
    named = {name for row in ROWS for name in row.source}
    listed = tomllib.loads((BUILTIN / "sources.toml").read_text(encoding="utf-8"))["sources"]
    assert set(listed) - named == set()


def test_rows_are_in_one_file() -> None:
    rows_seen: Counter[tuple[str, str]] = Counter()
    for path in BUILTIN.rglob("*.toml"):
        for kind, rows in tomllib.loads(path.read_text(encoding="utf-8")).items():
            rows_seen.update((kind, name) for name in rows)
    assert [row for row, times in rows_seen.items() if times > 1] == []


@pytest.mark.parametrize("row", CATALOG.checkpoints, ids=lambda row: row.name)
def test_checkpoints_were_seen_in_a_source(row: Checkpoint) -> None:
    assert row.source
    assert len(row.source) == len(set(row.source))
    assert set(row.source) <= set(SOURCES)
    first = SOURCES[row.source[0]]
    # A page names the checkpoint itself; of a repository or an index, the file is given.
    assert row.seen or "/tree/" not in first.url or "huggingface.co" in first.url


def test_sources_of_checkpoints_are_used() -> None:
    named = {name for row in CATALOG.checkpoints for name in row.source}
    path = BUILTIN / "checkpoints.toml"
    assert set(tomllib.loads(path.read_text(encoding="utf-8"))["sources"]) == named


def test_gated_checkpoints_name_the_source_of_the_gate() -> None:
    for row in CATALOG.checkpoints:
        assert any(name.endswith("-gate") for name in row.source) == row.gated, row.name
