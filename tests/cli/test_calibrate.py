"""`gpuyard calibrate` with a table of steps or a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = """model,chip,n_chips,precision,seq_len,global_batch,tp,pp,micro_batch,zero_or_fsdp,step_time_s
llama-3-70b,h100-sxm,256,bf16,8192,512,4,4,1,dist-opt,15.5
llama-3-70b,h100-sxm,512,bf16,8192,1024,4,4,1,dist-opt,15.8
"""


def test_fitted_profile_is_used_by_plan_and_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "not a table of training runs"),
        (b"\xff\xfe\x00", "not a CSV file"),
        (b"model,chip,n_chips\nllama-3-8b,h100-sxm,eight\n", "no measured step to calibrate with"),
    ],
)
def test_wrong_table_exits_with_2(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    assert main(["calibrate", str(file)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--run"),
        (["x.csv", "--run", "last"], "--run"),
        (["--run", "last", "--home", "none"], "state directory"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *words]) == 2
    assert message in capsys.readouterr().err


def test_calibrate_with_a_run_needs_a_measured_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger(home=Home(path=tmp_path)).begin(
        name="iris", workload="", engine=EngineSpec(), stages=("train",)
    )
    assert main(["calibrate", "--run", "last", "--home", str(tmp_path)]) == 4
    assert "gpuyard measure" in capsys.readouterr().err
