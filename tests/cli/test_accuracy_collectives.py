"""`gpuyard accuracy collectives`: what scripts read, and what a wrong file is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main

HEADER = "system,fabric,nodes,gpus,collective,size_bytes,time_us,algbw_GBps,busbw_GBps,source,note\n"
ROW = 'GCP A3 Ultra (H200 x8),"RoCE, 8x400 Gb/s NIC",2,16,all_gather,8589934592,24730,347.4,325.7,here,out-of-place\n'


def test_the_errors_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + ROW + ROW.replace("8589934592,24730,347.4,325.7", ",,,"), encoding="utf-8")
    assert main(["accuracy", "collectives", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["scored"], len(found["unsupported"])) == (2, 1, 1)
    assert found["mean_abs_error"] == pytest.approx(abs(found["per_row"][0]["error"]))
    assert found["mean_abs_error"] < 0.15
    assert main(["accuracy", "collectives", str(path)]) == 0
    assert "all-gather" in capsys.readouterr().out


def test_another_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["accuracy", "collectives", str(path)]) == 2
    assert "not a table of measured collectives" in capsys.readouterr().err
    assert main(["accuracy", "collectives", str(path), "--holdout-groups"]) == 2
    assert "it is for training" in capsys.readouterr().err
