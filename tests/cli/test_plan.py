"""`gpuyard plan`, `calibrate` and `accuracy`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = """model,chip,n_chips,precision,seq_len,global_batch,tp,pp,micro_batch,zero_or_fsdp,step_time_s
llama-3-70b,h100-sxm,256,bf16,8192,512,4,4,1,dist-opt,15.5
llama-3-70b,h100-sxm,512,bf16,8192,1024,4,4,1,dist-opt,15.8
"""


@pytest.mark.parametrize(
    "name", ["pretraining", "finetuning-lora", "graphics-workstations", "graphics-rendering", "hpc"]
)
def test_examples_are_planned(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", str(EXAMPLES / f"{name}.yaml"), "--top", "3", "--html", str(page)]) == 0
    table = capsys.readouterr().out
    assert "candidates" in table
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "")  # nothing is loaded from elsewhere
    assert main(["plan", str(EXAMPLES / f"{name}.yaml"), "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    assert main(["plan", str(EXAMPLES / f"{name}.yaml"), "--explain", "1"]) == 0
    assert options[0]["cluster"]["machine"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--top", "0"], "error: --top: 0 is below 1"),
        (["--explain", "9999"], "error: --explain: there is no option 9999"),
        (["--profile", "nemo-99"], 'error: --profile: no software profile named "nemo-99"'),
    ],
)
def test_wrong_flags(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLES / "pretraining.yaml"), *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_infeasible_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "w.yaml"
    text = (EXAMPLES / "pretraining.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("deadline: 60d", "deadline: 60min"), encoding="utf-8")
    assert main(["plan", str(file)]) == 3
    assert capsys.readouterr().out.startswith("infeasible: requirements.")
    assert main(["plan", str(file), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["infeasible"]["fix"]


def test_calibrated_steps_change_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps, own = tmp_path / "steps.csv", tmp_path / "mine.yaml"
    steps.write_text(STEPS, encoding="utf-8")
    assert main(["calibrate", str(steps), "--output", str(own), "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["errors"]["mean_abs_error"] < 0.1
    assert main(["plan", str(EXAMPLES / "pretraining.yaml"), "--profile", str(own), "--json"]) == 0
    slow = json.loads(capsys.readouterr().out)
    assert slow["profile"] == "mine"
    assert main(["accuracy", "training", str(steps), "--profile", str(own), "--json"]) == 0
    assert abs(json.loads(capsys.readouterr().out)["bias"]) < 0.05


def test_accuracy_has_the_keys_that_scripts_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = tmp_path / "steps.csv"
    steps.write_text(STEPS + "lama-3-70b,h100-sxm,8,bf16,8192,512,4,4,1,dist-opt,24.0\n", encoding="utf-8")
    words = ["accuracy", "training", str(steps), "--profile", "nemo-25"]
    assert main([*words, "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert {
        "rows", "scored", "unsupported", "mean_abs_error", "median_abs_error", "p90_abs_error", "bias", "by_chip",
        "by_source", "by_task", "memory", "per_row",
    } <= set(scored)  # fmt: skip
    assert (scored["rows"], scored["scored"], len(scored["unsupported"])) == (3, 2, 1)
    assert "missing: layers" in scored["unsupported"][0]["reason"]
    assert scored["by_chip"]["h100"]["rows"] == 2
    assert main(words) == 0
    assert "2 of 3 rows scored" in capsys.readouterr().out
    assert main([*words, "--holdout-groups"]) == 2
    assert "too few to fit" in capsys.readouterr().err
    steps.write_text(STEPS.splitlines()[0] + "\n", encoding="utf-8")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_abs_error"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "not a table of training runs"),
        (b"\xff\xfe\x00", "not a CSV file"),
        (b"model,chip,n_chips\nllama-3-8b,h100-sxm,eight\n", "no measured step to calibrate with"),
    ],
)
def test_a_wrong_table_is_refused(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    assert main(["calibrate", str(file)]) == 2
    assert message in capsys.readouterr().err
