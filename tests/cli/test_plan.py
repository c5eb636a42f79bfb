"""`gpuyard plan`: tables, pages, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pretraining", "finetuning-lora", "graphics-workstations", "graphics-rendering", "hpc"]
)
def test_examples_are_planned(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", str(EXAMPLES / f"{name}.yaml"), "--top", "3", "--html", str(page)]) == 0
    table = capsys.readouterr().out
    assert "candidates" in table
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
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
def test_wrong_flag_exits_with_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(EXAMPLES / "pretraining.yaml"), *words]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_infeasible_deadline_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "w.yaml"
    text = (EXAMPLES / "pretraining.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("deadline: 60d", "deadline: 60min"), encoding="utf-8")
    assert main(["plan", str(file)]) == 3
    assert capsys.readouterr().out.startswith("infeasible: requirements.")
    assert main(["plan", str(file), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["infeasible"]["fix"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "inference",
        "inference-trace",
        "inference-cloud-run",
        "inference-experts",
        "inference-images",
    ],
)
def test_services_are_planned_with_engine_commands(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    out = capsys.readouterr().out
    assert best["cluster"]["machine"] in out
    assert best["service"]["engine"]["command"][0] in out


def test_disaggregated_option_is_explained_and_provisioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "w.yaml", tmp_path / "plan.html"
    file.write_text(
        "task: inference\nname: long\nmodel: llama-3.1-70b\ntraffic: {input: 8000, output: 300}\n"
        "requirements: {requests: 50/s, ttft: 3s, tpot: 12ms}\nwhere: {machines: [a4-highgpu-8g]}\n",
        encoding="utf-8",
    )
    assert main(["plan", str(file), "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    number = next(
        at for at, option in enumerate(options, start=1) if option["service"].get("prefill")
    )
    pool = options[number - 1]["service"]["prefill"]
    assert main(["plan", str(file), "--explain", str(number), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    for line in (
        *pool["engine"]["command"],
        *options[number - 1]["service"]["engine"]["command"],
        pool["router"],
    ):
        assert line in out
        assert line.partition("'")[0] in page.read_text(encoding="utf-8")
    assert main(["plan", str(file)]) == 0
    assert (
        f"{pool['replicas']} + {options[number - 1]['service']['replicas']}"
        in capsys.readouterr().out
    )
    words = [
        "provision",
        str(file),
        "--on",
        "kubernetes",
        "-o",
        str(tmp_path / "deploy"),
        "--option",
        str(number),
    ]
    assert main(words) == 0
    assert pool["router"] in (tmp_path / "deploy" / "50-service.yaml").read_text(encoding="utf-8")
    words[words.index("kubernetes")] = "compute-engine"
    assert main(words) == 3
    assert "use gke" in capsys.readouterr().out


def test_simulated_network_agrees_with_closed_form_when_non_blocking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plans = []
    for network in ("closed-form", "simulated"):
        assert (
            main(
                ["plan", str(EXAMPLES / "pretraining-onprem.yaml"), "--network", network, "--json"]
            )
            == 0
        )
        plans.append(json.loads(capsys.readouterr().out))
    assert [option["cluster"] for option in plans[0]["options"]] == [
        option["cluster"] for option in plans[1]["options"]
    ]
    for closed, simulated in zip(plans[0]["options"], plans[1]["options"], strict=True):
        assert simulated["step_s"] == pytest.approx(closed["step_s"], rel=0.02)
    assert any("simulated as flows" in note for note in plans[1]["notes"])


def test_sweep_and_comparison_of_two_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "pretraining.yaml").read_text(encoding="utf-8")
    text = text.replace("[a3-ultragpu-8g, a4-highgpu-8g]", "[a4-highgpu-8g]")
    file = tmp_path / "w.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["plan", str(file), "--sweep"]) == 0
    assert "knee" in capsys.readouterr().out
    saved = [tmp_path / "monday.json", tmp_path / "friday.json"]
    for path in saved:
        assert main(["plan", str(file), "--json"]) == 0
        path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["plan", "--compare", *map(str, saved), "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert "monday: Use " in out
    assert "friday: Use " in out


def test_plan_without_a_file_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 2
    assert capsys.readouterr().err.startswith("error: FILE: is missing")
