"""A workload whose data is prepared once for `evaluate`, `select` and `models`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main

WORKLOAD = """
task: pretraining
name: iris
where: {provider: local}
pipeline:
  data:
    source: sklearn:iris
    label: target
    steps:
      - zscore: {columns: ["*"]}
    split: {test: 0.3, stratify: true, seed: 1}
  train: {trees: {rounds: 5, leaves: 4}}
  evaluate: {folds: 2, metrics: [accuracy, roc_auc], slices: [petal_length_cm], resamples: 50}
  select:
    metric: log_loss
    trials: 3
    candidates:
      - trees: {rounds: {of: [2, 8]}, leaves: {from: 2, to: 8}, min_rows: 5}
    limits: {latency: 1s, memory: 4GB}
"""


@pytest.fixture(scope="session")
def iris_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with iris.yaml and its prepared data."""
    folder = tmp_path_factory.mktemp("iris")
    (folder / "iris.yaml").write_text(WORKLOAD, encoding="utf-8")
    assert main(["data", "run", str(folder / "iris.yaml")]) == 0
    return folder


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that runs a command with --json and returns what it printed."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run
