"""`gpuyard check`: eligible machines, and workloads without any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.cli.main import main

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_eligible_machines(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["candidates"]
    assert all(group["machines"] and group["reason"] for group in result["left_out"])


def test_workload_without_eligible_machines_fails_with_a_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "w.yaml"
    target.write_text(
        "task: hpc\nhpc: {offload: 60%, bound: fp64, cpu_hours: 1000}\n"
        "where: {provider: onprem}\nrequirements: {precision: fp4, framework: rocm}\n",
        encoding="utf-8",
    )
    code = main(["check", str(target)])
    out, err = capsys.readouterr()
    assert code in (2, 3), out + err
    assert "fix:" in out + err
