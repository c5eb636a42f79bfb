"""`gpuyard accuracy` of training and inference rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

STEPS = """model,chip,n_chips,precision,seq_len,global_batch,tp,pp,micro_batch,zero_or_fsdp,step_time_s
llama-3-70b,h100-sxm,256,bf16,8192,512,4,4,1,dist-opt,15.5
llama-3-70b,h100-sxm,512,bf16,8192,1024,4,4,1,dist-opt,15.8
"""
RUNS = """id,model,chip,n_chips,tp,engine,engine_ver,scenario,date,tier,weights_prec,act_prec,kv_prec,batch,concurrency,\
n_requests,input_len,output_len,out_tok_s_total,tpot_ms_mean,ttft_ms_mean
a,Llama-3.1-8B,H100-SXM,1,1,vLLM,0.10.0,fixed concurrency,2025-09-01,A,bf16,bf16,bf16,16,16,160,1024,1024,,8.0,80
b,No-Such-Model,H100-SXM,1,1,vLLM,0.10.0,fixed concurrency,2025-09-01,A,bf16,bf16,bf16,16,16,160,1024,1024,,8.0,80
"""


def test_training_scores_have_documented_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = tmp_path / "steps.csv"
    steps.write_text(
        STEPS + "lama-3-70b,h100-sxm,8,bf16,8192,512,4,4,1,dist-opt,24.0\n", encoding="utf-8"
    )
    words = ["accuracy", "training", str(steps), "--profile", "nemo-25"]
    assert main([*words, "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert {
        "rows",
        "scored",
        "unsupported",
        "mean_abs_error",
        "median_abs_error",
        "p90_abs_error",
        "bias",
        "by_chip",
        "by_source",
        "by_task",
        "memory",
        "per_row",
    } <= set(scored)
    assert (scored["rows"], scored["scored"], len(scored["unsupported"])) == (3, 2, 1)
    assert "missing: layers" in scored["unsupported"][0]["reason"]
    assert scored["by_chip"]["h100"]["rows"] == 2
    inside = [
        row["interval"]["low"] <= row["measured_s"] <= row["interval"]["high"]
        for row in scored["per_row"]
    ]
    assert scored["coverage"] == scored["by_kind"]["dense"]["coverage"] == sum(inside) / 2
    assert {row["match"] for row in scored["per_row"]} == {"user"}
    assert main(words) == 0
    assert "2 of 3 rows scored" in capsys.readouterr().out
    assert main([*words, "--holdout-groups"]) == 2
    assert "too few to fit" in capsys.readouterr().err
    steps.write_text(STEPS.splitlines()[0] + "\n", encoding="utf-8")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_abs_error"] is None


def test_contradicting_network_is_noted_and_widens_the_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, first, second = STEPS.splitlines()
    steps = tmp_path / "steps.csv"
    rows = [f"{header},network,framework", f"{first},8x400G RoCE,NeMo"]
    rows.append(f'{second},"TCP, no InfiniBand",Unheard-Of')
    steps.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert main(["accuracy", "training", str(steps), "--json"]) == 0
    plain, tcp = json.loads(capsys.readouterr().out)["per_row"]
    assert plain["note"] == ""
    assert "TCP" in tcp["note"]
    width = [row["interval"]["high"] / row["predicted_s"] for row in (plain, tcp)]
    assert width[0] < width[1]
    assert (plain["match"], tcp["match"]) == ("release", "family")
    assert main(["accuracy", "training", str(steps)]) == 0
    printed = capsys.readouterr().out
    assert "TCP" in printed
    assert "software profile" in printed


def test_inference_scores_have_documented_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(RUNS, encoding="utf-8")
    assert main(["accuracy", "inference", str(file), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"] == 2
    assert result["scored"] == 1
    assert [row["id"] for row in result["unsupported"]] == ["b"]
    for figure in ("throughput", "tpot", "ttft", "e2e"):
        assert set(result["metrics"][figure]) == {
            "rows",
            "mean_abs_error",
            "median_abs_error",
            "p90_abs_error",
            "bias",
            "coverage",
        }
    assert result["metrics"]["tpot"]["rows"] == 1
    assert set(result) >= {"by_engine", "by_chip", "by_scenario", "per_row"}
    assert main(["accuracy", "inference", str(file)]) == 0
    assert "1 of 2 rows scored" in capsys.readouterr().out


def test_table_without_inference_runs_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["accuracy", "inference", str(file)]) == 2
    assert "not a table of inference runs" in capsys.readouterr().err
    assert main(["accuracy", "inference", str(file), "--holdout-groups"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: --holdout-groups: does not apply to inference"
    )


def test_minimal_table_is_scored_and_its_worst_rows_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "own.csv"
    table.write_text(
        "model,chip,count,layout,tokens_per_s,precision\n"
        "llama-3-70b,h100-sxm,64,tp4 pp4,52000,bf16\n"
        "llama-3-8b,b200,8,tp1,90000,bf16\n"
        "qwen2.5-32b,b200,8,tp1,20000,bf16\n",
        encoding="utf-8",
    )
    assert main(["accuracy", "training", str(table), "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["scored"] == 3
    assert [row["new_model"] for row in score["per_row"]] == [False, False, True]
    row = score["per_row"][0]
    assert row["id"] == "row-1"
    assert row["measured_s"] == pytest.approx(128 * 4096 / 52000, rel=1e-4)
    assert row["assumed"] == "seq_len 4096, global_batch 128, micro_batch 1"
    assert row["distance"] == "stack"
    assert "matmul" in row["terms"]
    assert sum(row["terms"].values()) <= 1.0
    assert main(["accuracy", "training", str(table)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "row-2:" in text
    assert "assumed: seq_len 4096" in text
    assert "framework not measured" in text
    assert "no measured run of this kind has a model of this size" in text
