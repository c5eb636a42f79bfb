"""`gpuyard simulate serving`: named replicas, the planned option, load, wrong flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAT = str(EXAMPLES / "inference.yaml")
NAMED = ["--machine", "a3-ultragpu-8g", "--tp", "8", "--weights", "fp8", "--requests", "300"]


def test_named_replica_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"
    assert main(["simulate", "serving", CHAT, *NAMED, "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "1 × TP8 on a3-ultragpu-8g, fp8 weights" in out
    assert "300 requests" in out
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    assert "ttft target" in text


def test_same_seed_gives_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for seed in ("1", "1", "2"):
        assert main(["simulate", "serving", CHAT, *NAMED, "--seed", seed, "--json"]) == 0
        runs.append(json.loads(capsys.readouterr().out))
    assert runs[0] == runs[1]
    assert runs[0]["e2e"] != runs[2]["e2e"]
    curve = runs[0]["curves"][0]
    assert curve["seconds"] == sorted(curve["seconds"])
    assert curve["shares"][0] == 0.0
    assert curve["shares"][-1] == 1.0


def test_more_load_lengthens_ttft(capsys: pytest.CaptureFixture[str]) -> None:
    waits = []
    for rate in ("2/s", "2000/s"):
        assert main(["simulate", "serving", CHAT, *NAMED, "--rate", rate, "--json"]) == 0
        waits.append(json.loads(capsys.readouterr().out))
    assert waits[0]["ttft"]["mean_s"] < waits[1]["ttft"]["mean_s"]
    assert waits[1]["broken"]


@pytest.mark.slow
def test_planned_option_meets_targets_in_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", CHAT, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["options"][0]
    assert main(["simulate", "serving", CHAT, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["machine"] == best["cluster"]["machine"]
    assert run["tp"] == best["service"]["tp"]
    assert not {"ttft", "tpot"} & set(run["broken"])
    assert run["e2e"]["mean_s"] == pytest.approx(best["service"]["e2e"]["mean_s"], rel=0.15)


def test_trace_replaces_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(EXAMPLES / "inference-trace.csv")
    assert main(["simulate", "serving", CHAT, *NAMED[:-2], "--trace", trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tp", "4"], "error: --tp: needs a machine"),
        (["--weights", "fp8"], "error: --weights: needs a machine"),
        (["--machine", "a3-ultragpu-8g", "--tp", "0"], "error: --tp: 0 is below 1"),
        (
            ["--machine", "a3-ultragpu-8g", "--tp", "3"],
            "error: --tp: 3 does not divide the 64 heads",
        ),
        (["--machine", "a3-ultra"], 'error: catalog: no row named "a3-ultra" under machines'),
        (["--rate", "fast"], 'error: --rate: "fast" is not a rate of events'),
        (["--rate", "0"], "error: --rate: must be above zero"),
        (["--rate", "1e-12/s"], "error: --rate: fewer than one request per day"),
        (["--trace", "no.csv"], "error: --trace: no such file: no.csv"),
        (["--trace", "."], "error: --trace: . is a folder"),
        (["--kv", "fp8"], "error: --kv: needs a machine"),
        (["--seed", "-1"], "error: --seed: -1 is below 0"),
        (["--requests", "99999999999"], "error: --requests: 99,999,999,999 is too many"),
        (
            ["--machine", "a3-ultragpu-8g", "--replicas", "1000000"],
            "error: --replicas: 1,000,000 is too many",
        ),
        (
            ["--machine", "a3-ultragpu-8g", "--tp", "8", "--prefill-tp", "4"],
            "error: --prefill-tp: the number of prefill replicas is missing",
        ),
        (
            ["--machine", "a3-highgpu-8g", "--tp", "8", "--prefill-replicas", "1"],
            "error: --prefill-replicas: a3-high",
        ),
        (["--prefill-replicas", "2"], "error: --prefill-replicas: needs a machine"),
        (
            ["--machine", "g2-standard-4", "--tp", "8"],
            "error: --machine: g2-standard-4 has 1 chip and no fabric",
        ),
    ],
)
def test_wrong_flag_exits_with_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "serving", CHAT, *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_simulate_serving_with_disaggregated_prefill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "run.html"
    runs = []
    for more in ([], ["--prefill-replicas", "1", "--prefill-tp", "4"]):
        assert (
            main(["simulate", "serving", CHAT, *NAMED, *more, "--html", str(page), "--json"]) == 0
        )
        runs.append(json.loads(capsys.readouterr().out))
    shared, disaggregated = runs
    assert disaggregated["prefill"] == {"replicas": 1, "tp": 4, "ep": 1, "attention_dp": 1}
    assert "prefill" not in shared or shared["prefill"] is None
    assert disaggregated["tpot"]["mean_s"] < shared["tpot"]["mean_s"]  # no prefill delays a token
    assert disaggregated["ttft"]["mean_s"] > shared["ttft"]["mean_s"]  # the KV cache is transferred
    assert disaggregated["ttft"]["error_ratio"] > shared["ttft"]["error_ratio"]
    assert (
        max(
            next(track for track in disaggregated["tracks"] if track["name"] == "cache used")[
                "values"
            ]
        )
        <= 1.0
    )
    assert "TP4" in page.read_text(encoding="utf-8")


def test_common_dtype_names_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    for name, meant in (("fp16", "bf16"), ("int4", "int4-weights"), ("fp4", "nvfp4")):
        words = [
            *NAMED[: NAMED.index("--weights")],
            "--weights",
            name,
            "--requests",
            "50",
            "--json",
        ]
        assert main(["simulate", "serving", CHAT, *words]) == 0
        assert json.loads(capsys.readouterr().out)["weights"] == meant


def test_chip_without_measurements_has_wider_error_bars(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bars = []
    for machine in ("a3-ultragpu-8g", "ct6e-standard-8t"):
        words = ["--machine", machine, "--tp", "8", "--requests", "50", "--json"]
        assert main(["simulate", "serving", CHAT, *words]) == 0
        bars.append(json.loads(capsys.readouterr().out))
    for name in ("ttft", "tpot", "e2e"):
        assert 0.0 < bars[0][name]["error_ratio"] < bars[1][name]["error_ratio"]
    assert any("wide error bars" in note for note in bars[1]["notes"])


def test_replica_larger_than_memory_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "serving", CHAT, "--machine", "g2-standard-4"]) == 3
    assert capsys.readouterr().out.startswith(
        "infeasible: memory: Llama 3 70B in bf16 on 1 × NVIDIA L4 needs"
    )


def test_workload_without_token_generation_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "serving", str(EXAMPLES / "inference-images.yaml")]) == 2
    assert capsys.readouterr().err.startswith(
        "error: model: only models that write tokens are simulated"
    )
    assert main(["simulate", "serving", str(EXAMPLES / "hpc.yaml")]) == 2
    assert capsys.readouterr().err.startswith("error: task: hpc serves no requests")
