"""`gpuyard catalog`: lists, conditions, sources, YAML and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.app.catalog import KINDS
from gpuyard.cli.main import main


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", kind]) == 0
    table = capsys.readouterr().out
    assert main(["catalog", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert table.rstrip().endswith(f"{len(rows)} {kind}")
    assert all(row["name"] for row in rows)


def test_chip_shows_dense_throughput_with_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "chips", "h100", "--sources"]) == 0
    text = capsys.readouterr().out
    assert "989TFLOPS" in text
    assert "https://" in text
    assert "1,979TFLOPS" in text.replace("1.979PFLOPS", "1,979TFLOPS")  # fp8


def test_columns_conditions_and_order_are_applied(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "catalog",
        "chips",
        "--columns",
        "name,memory",
        "--where",
        "name=h100*",
        "--sort=-memory",
    ]
    assert main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["name", "memory"]
    assert ["h100-sxm", "80GB"] in lines


def test_printed_row_can_be_read_as_a_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["catalog", "chips", "h100-sxm", "--yaml"]) == 0
    own = tmp_path / "own.yaml"
    own.write_text(capsys.readouterr().out.replace("h100-sxm:", "h100-mine:"), encoding="utf-8")
    assert main(["catalog", "chips", "h100-mine", "--catalog", str(own), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dense"]["bf16_flop_per_s"] == 989e12


def test_overview_counts_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert set(counts) == set(KINDS)
    assert counts["machines"] >= 61
