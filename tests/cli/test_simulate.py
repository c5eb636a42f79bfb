"""`gpuyard simulate serving`, plans of services, and `gpuyard accuracy inference`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAT = str(EXAMPLES / "inference.yaml")
NAMED = ["--machine", "a3-ultragpu-8g", "--tp", "8", "--weights", "fp8", "--requests", "300"]
RUNS = """id,model,chip,n_chips,tp,engine,engine_ver,scenario,date,tier,weights_prec,act_prec,kv_prec,batch,concurrency,\
n_requests,input_len,output_len,out_tok_s_total,tpot_ms_mean,ttft_ms_mean
a,Llama-3.1-8B,H100-SXM,1,1,vLLM,0.10.0,fixed concurrency,2025-09-01,A,bf16,bf16,bf16,16,16,160,1024,1024,,8.0,80
b,No-Such-Model,H100-SXM,1,1,vLLM,0.10.0,fixed concurrency,2025-09-01,A,bf16,bf16,bf16,16,16,160,1024,1024,,8.0,80
"""


@pytest.mark.parametrize(
    "name", ["inference", "inference-trace", "inference-cloud-run", "inference-experts", "inference-images"]
)
def test_services_are_planned(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = str(EXAMPLES / f"{name}.yaml"), tmp_path / "plan.html"
    assert main(["plan", file, "--top", "3", "--html", str(page)]) == 0
    assert "candidates" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "Start one replica of option 1" in text
    assert main(["plan", file, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["options"][0]
    assert best["service"]["engine"]["command"]
    assert main(["plan", file, "--explain", "1"]) == 0
    told = capsys.readouterr().out
    assert best["cluster"]["machine"] in told
    assert best["service"]["engine"]["command"][0] in told


def test_a_named_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"
    assert main(["simulate", "serving", CHAT, *NAMED, "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "1 × TP8 on a3-ultragpu-8g, fp8 weights" in out
    assert "300 requests" in out
    text = page.read_text(encoding="utf-8")
    for words in ("Latencies under load", "Requests waiting and running", "Cache of keys and values", "ttft target"):
        assert words in text


def test_the_same_seed_gives_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_more_load_waits_longer(capsys: pytest.CaptureFixture[str]) -> None:
    waits = []
    for rate in ("2/s", "2000/s"):
        assert main(["simulate", "serving", CHAT, *NAMED, "--rate", rate, "--json"]) == 0
        waits.append(json.loads(capsys.readouterr().out))
    assert waits[0]["ttft"]["mean_s"] < waits[1]["ttft"]["mean_s"]
    assert waits[1]["broken"]


def test_the_best_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", CHAT, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["options"][0]
    assert main(["simulate", "serving", CHAT, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert run["machine"] == best["cluster"]["machine"]
    assert run["tp"] == best["service"]["tp"]
    assert not {"ttft", "tpot"} & set(run["broken"])
    assert run["e2e"]["mean_s"] == pytest.approx(best["service"]["e2e"]["mean_s"], rel=0.15)


def test_a_trace_in_place_of_the_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(EXAMPLES / "inference-trace.csv")
    assert main(["simulate", "serving", CHAT, *NAMED[:-2], "--trace", trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tp", "4"], "error: --tp: it needs a machine"),
        (["--weights", "fp8"], "error: --weights: it needs a machine"),
        (["--machine", "a3-ultragpu-8g", "--tp", "0"], "error: --tp: 0 is below 1"),
        (["--machine", "a3-ultragpu-8g", "--tp", "3"], "error: --tp: 3 does not divide the 64 heads"),
        (["--machine", "a3-ultra"], 'error: catalog: no row named "a3-ultra" under machines'),
        (["--rate", "fast"], 'error: --rate: "fast" is not a rate of events'),
        (["--rate", "0"], "error: --rate: it has to be above zero"),
        (["--rate", "1e-12/s"], "error: --rate: fewer than one request in a day"),
        (["--trace", "no.csv"], "error: --trace: no such file: no.csv"),
        (["--trace", "."], "error: --trace: . is a folder"),
        (["--kv", "fp8"], "error: --kv: it needs a machine"),
        (["--seed", "-1"], "error: --seed: -1 is below 0"),
        (["--requests", "99999999999"], "error: --requests: 99,999,999,999 are more than it plays"),
        (["--machine", "a3-ultragpu-8g", "--replicas", "1000000"], "error: --replicas: 1,000,000 are more than it"),
        (
            ["--machine", "a3-ultragpu-8g", "--tp", "8", "--prefill-tp", "4"],
            "error: --prefill-tp: nothing says how many",
        ),
        (["--machine", "a3-highgpu-8g", "--tp", "8", "--prefill-replicas", "1"], "error: --prefill-replicas: a3-high"),
        (["--prefill-replicas", "2"], "error: --prefill-replicas: it needs a machine"),
        (["--machine", "g2-standard-4", "--tp", "8"], "error: --machine: g2-standard-4 has 1 chip, and no network"),
    ],
)
def test_wrong_flags(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "serving", CHAT, *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_prompts_read_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"
    runs = []
    for more in ([], ["--prefill-replicas", "1", "--prefill-tp", "4"]):
        assert main(["simulate", "serving", CHAT, *NAMED, *more, "--html", str(page), "--json"]) == 0
        runs.append(json.loads(capsys.readouterr().out))
    together, apart = runs
    assert apart["prefill"] == {"replicas": 1, "tp": 4, "ep": 1, "attention_dp": 1}
    assert "prefill" not in together or together["prefill"] is None
    assert apart["tpot"]["mean_s"] < together["tpot"]["mean_s"]  # no prompt stands before a token
    assert apart["ttft"]["mean_s"] > together["ttft"]["mean_s"]  # a cache is handed over
    assert apart["ttft"]["error_ratio"] > together["ttft"]["error_ratio"]
    assert any("read apart" in note for note in apart["notes"])
    assert max(next(track for track in apart["tracks"] if track["name"] == "cache used")["values"]) <= 1.0
    assert "1 × TP4 read, 1 × TP8 write" in page.read_text(encoding="utf-8")


def test_the_plan_tells_of_pools_and_they_are_not_deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "w.yaml", tmp_path / "plan.html"
    file.write_text(
        "task: inference\nname: long\nmodel: llama-3.1-70b\ntraffic: {input: 8000, output: 300}\n"
        "requirements: {requests: 50/s, ttft: 3s, tpot: 12ms}\nwhere: {machines: [a4-highgpu-8g]}\n",
        encoding="utf-8",
    )
    assert main(["plan", str(file), "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    number = next(at for at, option in enumerate(options, start=1) if option["service"].get("prefill"))
    pool = options[number - 1]["service"]["prefill"]
    assert main(["plan", str(file), "--explain", str(number), "--html", str(page)]) == 0
    told = capsys.readouterr().out
    for line in (*pool["engine"]["command"], *options[number - 1]["service"]["engine"]["command"], pool["router"]):
        assert line in told
        assert line.partition("'")[0] in page.read_text(encoding="utf-8")
    assert main(["plan", str(file)]) == 0
    assert f"{pool['replicas']} + {options[number - 1]['service']['replicas']}" in capsys.readouterr().out
    words = ["provision", str(file), "--on", "kubernetes", "-o", str(tmp_path / "deploy"), "--option", str(number)]
    assert main(words) == 2
    assert "pool that reads prompts apart" in capsys.readouterr().err


def test_formats_have_the_names_that_people_use(capsys: pytest.CaptureFixture[str]) -> None:
    for name, meant in (("fp16", "bf16"), ("int4", "int4-weights"), ("fp4", "nvfp4")):
        words = [*NAMED[: NAMED.index("--weights")], "--weights", name, "--requests", "50", "--json"]
        assert main(["simulate", "serving", CHAT, *words]) == 0
        assert json.loads(capsys.readouterr().out)["weights"] == meant


def test_a_run_has_error_bars_and_says_why_they_are_wide(capsys: pytest.CaptureFixture[str]) -> None:
    bars = []
    for machine in ("a3-ultragpu-8g", "ct6e-standard-8t"):
        words = ["--machine", machine, "--tp", "8", "--requests", "50", "--json"]
        assert main(["simulate", "serving", CHAT, *words]) == 0
        bars.append(json.loads(capsys.readouterr().out))
    for name in ("ttft", "tpot", "e2e"):
        assert 0.0 < bars[0][name]["error_ratio"] < bars[1][name]["error_ratio"]
    assert any("wide error bars" in note for note in bars[1]["notes"])


def test_what_does_not_fit_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "serving", CHAT, "--machine", "g2-standard-4"]) == 3
    assert capsys.readouterr().out.startswith("infeasible: memory: Llama 3 70B in bf16 on 1 × NVIDIA L4 needs")


def test_only_language_models_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "serving", str(EXAMPLES / "inference-images.yaml")]) == 2
    assert capsys.readouterr().err.startswith("error: model: only models that write tokens are simulated")
    assert main(["simulate", "serving", str(EXAMPLES / "hpc.yaml")]) == 2
    assert capsys.readouterr().err.startswith("error: task: hpc serves no requests")


def test_accuracy_of_inference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(RUNS, encoding="utf-8")
    assert main(["accuracy", "inference", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 2
    assert found["scored"] == 1
    assert [row["id"] for row in found["unsupported"]] == ["b"]
    for figure in ("throughput", "tpot", "ttft", "e2e"):
        assert set(found["metrics"][figure]) == {
            "rows", "mean_abs_error", "median_abs_error", "p90_abs_error", "bias",
        }  # fmt: skip
    assert found["metrics"]["tpot"]["rows"] == 1
    assert set(found) >= {"by_engine", "by_chip", "by_scenario", "per_row"}
    assert main(["accuracy", "inference", str(file)]) == 0
    assert "1 of 2 rows scored" in capsys.readouterr().out


def test_a_table_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["accuracy", "inference", str(file)]) == 2
    assert "not a table of inference runs" in capsys.readouterr().err
    assert main(["accuracy", "inference", str(file), "--holdout-groups"]) == 2
    assert capsys.readouterr().err.startswith("error: --holdout-groups: it is for training")
