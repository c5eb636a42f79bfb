"""`gpuyard data profile`: terminal tables and HTML page, also of broken files."""

from __future__ import annotations

import argparse
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.app.profile import profile_source
from gpuyard.cli import data_profile
from gpuyard.datasets.profile.make import profile
from gpuyard.datasets.profile.measures import DatasetProfile
from gpuyard.document.encode import load_json
from gpuyard.errors import GpuyardError, InputError
from gpuyard.report.profile import profile_table, suspicions_table, ties_table
from gpuyard.report.profile_page import profile_page


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    data_profile.add_arguments(parser)
    return data_profile.run(parser.parse_args(words))


@pytest.mark.slow
def test_profile_command_prints_tables_and_writes_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run("sklearn:breast_cancer", "--label", "target", "--html", str(tmp_path / "p.html")) == 0
    )
    out = capsys.readouterr().out
    assert "569 rows, 31 columns, no duplicate rows, label target" in out
    assert "mean_radius" in out
    assert "is skewed" in out
    assert run("sklearn:iris", "--json") == 0
    result = load_json(capsys.readouterr().out, DatasetProfile)
    assert result.rows_count == 150
    assert result.findings[0].rule == "duplicates"


class Tags(HTMLParser):
    """Parser that checks that tags close in order, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in ("meta",):
            self.open.append(tag)
        assert not any((name in ("src", "href", "onclick")) for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        del attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_well_formed_and_self_contained() -> None:
    draw = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "<script>alert(1)</script>": draw.normal(size=90),
            "x": draw.normal(size=90),
            "s": ["<b>", "&amp;", "ok"] * 30,
            "y": [0, 1] * 45,
        }
    )
    page = profile_page(profile("a<b>.csv", frame.lazy(), "y"))
    assert page.count("<script") == 1  # the page's own
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.seen["svg"] == 5  # four columns and the heat map
    assert "prefers-color-scheme" in page or "color-scheme:light dark" in page
    assert 'name="viewport"' in page


@pytest.mark.parametrize("label", [None, "y", "s", "t"])
def test_tables_and_page_support_empty_and_extreme_columns(label: str | None) -> None:
    frames = [
        pl.DataFrame(schema={"x": pl.Float64, "y": pl.Int64, "s": pl.String, "t": pl.Date}),
        pl.DataFrame(
            {"x": [None, np.inf, np.nan], "y": [None] * 3, "s": ["", None, "é\n"], "t": [None] * 3},
            schema={"x": pl.Float64, "y": pl.Int64, "s": pl.String, "t": pl.Date},
        ),
        pl.DataFrame(
            {"x": [1e308, -1e308] * 30, "y": [0, 1] * 30, "s": ["a", "b"] * 30, "t": [None] * 60},
            schema={"x": pl.Float64, "y": pl.Int64, "s": pl.String, "t": pl.Date},
        ),
    ]
    for frame in frames:
        result = profile("odd", frame.lazy(), label)
        for table in (profile_table(result), ties_table(result), suspicions_table(result)):
            assert table is None or all(len(row) == len(table.columns) for row in table.rows)
        tags = Tags()
        tags.feed(profile_page(result))
        assert tags.open == []


def test_broken_files_raise_input_error(tmp_path: Path) -> None:
    good = pl.DataFrame({"x": np.arange(5000.0), "s": ["word"] * 5000})
    good.write_parquet(tmp_path / "good.parquet")
    cut = (tmp_path / "good.parquet").read_bytes()
    files = {
        "cut.parquet": cut[: len(cut) // 2],
        "garbage.parquet": np.random.default_rng(0).bytes(5000),
        "empty.parquet": b"",
        "empty.csv": b"",
        "latin.csv": "name,x\ncafé,1\n".encode("latin-1"),
        "garbage.jsonl": b"\x00\x01\x02\xff\xfe" * 100,
    }
    for name, contents in files.items():
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(InputError) as caught:
            profile_source(name, base=tmp_path)
        assert name in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        profile_source("missing.csv", base=tmp_path)


def test_unusual_files_are_profiled(tmp_path: Path) -> None:
    (tmp_path / "huge.csv").write_text("text,x\n" + "a" * 3_000_000 + ",1\nb,2\n")
    result = profile_source("huge.csv", base=tmp_path)
    assert (result.rows_count, result.columns[0].longest) == (2, 3_000_000)
    (tmp_path / "names.csv").write_text(
        "naïve 列,😀,\u202eabc\n1,2,x\n3,4,y\n", encoding="utf-8-sig"
    )
    assert [column.name for column in profile_source("names.csv", base=tmp_path).columns] == [
        "naïve 列",
        "😀",
        "\u202eabc",
    ]
    rows = "\n".join(f"{number},{'' if number % 2 else number}," for number in range(300))
    (tmp_path / "nulls.csv").write_text(f"a,b,c\n{rows}\n")
    result = profile_source("nulls.csv", base=tmp_path)
    assert [column.nulls_count for column in result.columns] == [0, 150, 300]
    (tmp_path / "mixed.csv").write_text(
        "a,b\n" + "\n".join(f"{n},{n}" for n in range(20_000)) + "\nx,1\n7\n"
    )
    result = profile_source("mixed.csv", base=tmp_path)
    assert result.rows_count + result.unreadable_count == 20_002
    assert any(finding.rule in ("unreadable", "mixed") for finding in result.findings)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("hello")
    (tmp_path / "docs" / "b.txt").write_bytes(b"\xff\xfe\x00")
    result = profile_source("docs", base=tmp_path)
    assert (result.rows_count, result.unreadable_count) == (1, 1)


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_never_crash(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    name = ("a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow", "a.txt")[seed % 6]
    start = (b"x,y\n1,2\n", b"x\ty\n1\t2\n", b'{"x": 1}\n', b"PAR1", b"ARROW1\x00\x00", b"text ")[
        seed % 6
    ]
    (tmp_path / name).write_bytes(start + draw.bytes(int(draw.integers(0, 400))))
    try:
        result = profile_source(name, base=tmp_path)
    except GpuyardError as error:
        assert name in str(error)
    else:
        assert json.dumps(result.rows_count)
