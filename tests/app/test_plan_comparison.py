"""`gpuyard runs predicted`: an own program against the plan of its machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuyard.cli.main import main

FILE = """\
task: finetuning
name: own
model: llama-3-8b
data: {samples: 10k, sequence: 4096}
training: {global_batch: 64}
requirements: {deadline: 1h, precision: bf16}
where: {provider: google, machines: [MACHINES]}
pipeline:
  train: {command: {run: [PYTHON, train.py]}}
  run: {retries: 0}
"""
STEPS = """
import json
for step in range(1, 6):
    row = {"step": step, "step_s": 9.0 if step == 1 else 6.0, "memory_bytes": 60e9 + step}
    print(json.dumps(ROW), flush=True)
"""


def run(folder: Path, machines: str, script: str) -> list[str]:
    """Run the workload on this machine; return the options of its home."""
    file = folder / "w.yaml"
    file.write_text(FILE.replace("MACHINES", machines).replace("PYTHON", sys.executable))
    (folder / "train.py").write_text(script)
    home = ["--home", str(folder / "home")]
    assert main(["run", str(file), "--engine", "local", *home]) == 0
    return home


def test_own_program_is_compared_with_its_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = run(tmp_path, "a3-highgpu-8g", STEPS.replace("ROW", "row"))
    capsys.readouterr()
    assert main(["runs", "predicted", "last", *home, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    cluster = compared["option"]["cluster"]
    assert (cluster["machine"], cluster["machine_count"]) == ("a3-highgpu-8g", 1)
    rows = {row["name"]: row for row in compared["rows"]}
    assert set(rows) == {"step time", "memory"}
    assert rows["step time"]["measured"] == 6.0  # the median without the first
    assert rows["memory"]["measured"] == 60e9 + 5  # the peak
    assert 1.0 < rows["step time"]["predicted"] < 10.0
    assert main(["runs", "predicted", "last", *home]) == 0
    assert "1 × a3-highgpu-8g" in capsys.readouterr().out


def test_machine_must_be_named_where_the_file_allows_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = run(tmp_path, "a3-highgpu-8g, a4-highgpu-8g", STEPS.replace("ROW", "row"))
    capsys.readouterr()
    assert main(["runs", "predicted", "last", *home]) == 2
    assert "name one of a3-highgpu-8g or a4-highgpu-8g" in capsys.readouterr().err
    assert main(["runs", "predicted", "last", "--machine", "a4-highgpu-8g", *home]) == 0


def test_program_without_step_times_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = run(tmp_path, "a3-highgpu-8g", STEPS.replace("ROW", '{"step": step, "loss": 1.0}'))
    capsys.readouterr()
    assert main(["runs", "predicted", "last", *home]) == 2
    assert "reported no step_s" in capsys.readouterr().err
