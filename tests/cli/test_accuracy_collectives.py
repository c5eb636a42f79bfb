"""`gpuyard accuracy collectives`: errors per row, and wrong tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

HEADER = (
    "system,fabric,nodes,gpus,collective,size_bytes,time_us,algbw_GBps,busbw_GBps,source,note\n"
)
ROW = 'GCP A3 Ultra (H200 x8),"RoCE, 8x400 Gb/s NIC",2,16,all_gather,8589934592,24730,347.4,325.7,here,out-of-place\n'


def test_rows_are_scored_or_unsupported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        HEADER + ROW + ROW.replace("8589934592,24730,347.4,325.7", ",,,"), encoding="utf-8"
    )
    assert main(["accuracy", "collectives", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["rows"], result["scored"], len(result["unsupported"])) == (2, 1, 1)
    assert result["mean_abs_error"] == pytest.approx(abs(result["per_row"][0]["error"]))
    assert result["mean_abs_error"] < 0.15
    assert main(["accuracy", "collectives", str(path)]) == 0
    assert "all-gather" in capsys.readouterr().out


def test_wrong_table_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["accuracy", "collectives", str(path)]) == 2
    assert "not a table of measured collectives" in capsys.readouterr().err
    assert main(["accuracy", "collectives", str(path), "--holdout-groups"]) == 2
    assert "does not apply to collectives" in capsys.readouterr().err


def test_plain_tcp_between_nodes_is_unsupported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = "system,fabric,nodes,gpus,collective,size_bytes,time_us,algbw_GBps,busbw_GBps,note"
    table = tmp_path / "own.csv"
    row = "8x H100,{},2,16,all_reduce,1073741824,6000,,300,"
    rows = [row.format('"TCP, no InfiniBand"'), row.format("InfiniBand NDR 8x400 Gb/s")]
    table.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    assert main(["accuracy", "collectives", str(table), "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert (score["scored"], len(score["unsupported"])) == (1, 1)
    assert "TCP" in score["unsupported"][0]["reason"]
    interval = score["per_row"][0]["interval"]
    assert interval["low"] < score["per_row"][0]["predicted_s"] < interval["high"]
