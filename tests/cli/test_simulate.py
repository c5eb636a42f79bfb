"""`gpuyard simulate collective`, `traffic`, `step` and `sweep`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
TREE = ["--topology", "fat-tree", "--hosts", "16", "--link", "400Gbps"]
KEYS = (
    "flows", "completed", "completion_s", "fct_mean_s", "fct_p50_s", "fct_p99_s", "fct_max_s", "drops", "pauses",
    "marks", "events", "link_mmr_ratio", "link_jain_ratio", "hottest",
)  # fmt: skip


def simulate_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["simulate", *words, "--json"]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("engine", ["packet", "flow"])
@pytest.mark.parametrize("file", ["ring.cm", "permutation.cm"])
def test_traffic_has_documented_keys(
    engine: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "traffic",
        str(EXAMPLES / file),
        *TREE,
        "--mtu",
        "4096",
        "--engine",
        engine,
        "--cc",
        "none",
    ]
    result = simulate_json(words, capsys)
    assert set(KEYS) <= set(result)
    assert result["completed"] == result["flows"]
    assert (result["drops"] is None) == (engine == "flow")  # the flow engine has no packets


def test_collective_writes_page_and_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "run.json"
    words = [
        "simulate",
        "collective",
        "all-reduce",
        "--size",
        "1MB",
        *TREE,
        "--fail",
        "spine1@5us-20us",
    ]
    assert main([*words, "--html", str(page), "--trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "bus bandwidth" in out
    assert f"wrote {page}" in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]


def test_collective_on_designed_fabric_reaches_line_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "collective",
        "all-reduce",
        "--size",
        "1GB",
        "--gpus",
        "64",
        "--switch",
        "qfx5240-64od",
    ]
    result = simulate_json(words, capsys)
    assert float(str(result["bus_bytes_per_s"])) == pytest.approx(
        394e9, rel=0.02
    )  # 8 NICs of 50 GB/s, less headers
    assert float(str(result["link_max_ratio"])) <= 1.0 + 1e-6
    assert result["nccl_bus_bytes_per_s"]


def test_step_writes_page_and_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, trace = tmp_path / "step.html", tmp_path / "step.json"
    words = [
        "step",
        str(EXAMPLES / "pretraining-onprem.yaml"),
        "--html",
        str(page),
        "--trace",
        str(trace),
    ]
    result = simulate_json(words, capsys)
    assert float(str(result["simulated_step_s"])) > 0
    assert "timeline" not in result
    assert "<svg" in page.read_text(encoding="utf-8")
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert main(["simulate", *words]) == 0
    assert "exposed communication" in capsys.readouterr().out


def test_sweep_runs_every_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    words = [
        "sweep",
        "all-reduce",
        "--size",
        "1MB,2MB",
        "--topology",
        "fat-tree",
        "--hosts",
        "2,16",
        "--seeds",
        "1-2",
    ]
    result = simulate_json([*words, "-j", "1", "--csv", str(table), "--html", str(page)], capsys)
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2 * 2 * 2
    assert {row["seed"] for row in rows} == {"1", "2"}
    assert len(result["rows"]) == 8  # type: ignore[arg-type]
    assert "<svg" in page.read_text(encoding="utf-8")
    words = [
        "simulate",
        "sweep",
        str(EXAMPLES / "permutation.cm"),
        "--load-balancing",
        "ecmp,spray",
        "-j",
        "1",
    ]
    assert main(words) == 0
    assert "spray" in capsys.readouterr().out


def matrix(tmp_path: Path, text: str) -> str:
    path = tmp_path / "bad.cm"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collective", "al-reduce", "--size", "1GB", *TREE], 'no collective named "al-reduce"'),
        (["collective", "all-reduce", "--size", "1XB", *TREE], '"XB" is not a unit of data size'),
        (["collective", "all-reduce", "--size", "0B", *TREE], "nothing to send"),
        (["collective", "all-reduce", "--size", "1GB"], "nothing says how many hosts"),
        (["collective", "all-reduce", "--size", "1GB", "--hosts", "17"], "17 hosts are not k³/4"),
        (
            ["collective", "all-reduce", "--size", "1GB", "--topology", "ring", "--hosts", "16"],
            "no topology named",
        ),
        (
            ["collective", "all-reduce", "--size", "1GB", *TREE, "--algorithm", "rings"],
            "no rings all-reduce",
        ),
        (["collective", "all-reduce", "--size", "1GB", *TREE, "--ranks", "99"], "99 of 16 hosts"),
        (
            ["collective", "all-reduce", "--size", "1GB", *TREE, "--fail", "spine99"],
            'no node named "spine99"',
        ),
        (
            ["collective", "all-reduce", "--size", "1GB", *TREE, "--fail", "spine1@5xs"],
            '"xs" is not a unit',
        ),
        (
            ["collective", "all-reduce", "--size", "1GB", *TREE, "--slow-link", "host1"],
            "has no speed",
        ),
        (
            ["collective", "all-reduce", "--size", "1GB", *TREE, "--straggler", "host1"],
            "has no delay",
        ),
        (
            [
                "collective",
                "all-reduce",
                "--size",
                "1GB",
                *TREE,
                "--engine",
                "flow",
                "--cc",
                "dcqcn",
            ],
            "flows know no",
        ),
        (["collective", "all-reduce", "--size", "1GB", "--gpus", "20"], "do not fill servers of 8"),
        (
            ["collective", "all-reduce", "--size", "1GB", "--gpus", "16", "--switch", "nope"],
            'no row named "nope"',
        ),
        (["collective", "all-reduce", "--size", "1GB", "--fabric", "missing.json"], "no such file"),
        (["traffic", "missing.cm", *TREE], "no such file"),
        (["step", str(EXAMPLES / "inference.yaml")], "inference has no training step"),
        (
            ["step", str(EXAMPLES / "pretraining-onprem.yaml"), "--option", "99"],
            "there is no option 99",
        ),
        (["sweep", "all-reduce", "--size", "1MB"], "no network"),
        (["sweep", "all-reduce", "--hosts", "16"], "is missing"),
        (
            ["sweep", "all-reduce", "--size", "1MB", "--hosts", "16", "--seeds", "x"],
            "are not seeds",
        ),
        (["nonsense"], "invalid choice"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_fix(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "fix: " in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Nodes 2\nConnections 2\n0->1 id 1 start 0 size 10\n",
            "Connections says 2, the file has 1",
        ),
        (
            "Nodes 2\nConnections 1\n0->7 id 1 start 0 size 10\n",
            "bad.cm:3: host 7 is outside the network of 2",
        ),
        ("Nodes 2\nConnections 1\n0->1 id 1 start 0 size lots\n", "which is no number"),
        (
            "Nodes 99\nConnections 1\n0->1 id 1 start 0 size 10\n",
            "99 nodes, the network has 16 hosts",
        ),
        ("", "no Nodes"),
    ],
)
def test_wrong_traffic_matrix_exits_with_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "traffic", matrix(tmp_path, text), *TREE]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}", "[1, 2]", "{", '{"interfaces": []}'])
def test_wrong_fabric_file_exits_with_2(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(text, encoding="utf-8")
    assert (
        main(["simulate", "collective", "all-reduce", "--size", "1GB", "--fabric", str(path)]) == 2
    )
    assert "error: " in capsys.readouterr().err
