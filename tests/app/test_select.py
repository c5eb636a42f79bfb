"""The price of predictions on planned hardware, and limits that nothing keeps to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.select import serving_price
from gpuyard.cli import main
from gpuyard.home import Home
from gpuyard.jobs import Ledger
from gpuyard.learn.select import Footprint

EXAMPLES = Path(__file__).parents[2] / "examples"
SELECT = """\
task: pretraining
name: iris
where: {provider: local}
pipeline:
  data: {source: "sklearn:iris", label: target}
  evaluate: {folds: 2}
  select: {metric: log_loss, trials: 1, limits: {size: 1B}, candidates: [{trees: {rounds: 5, leaves: 4}}]}
"""


def taken(batch_latency_s: float) -> Footprint:
    """A model that takes so long for 32 rows."""
    return Footprint(
        latency_s=1e-3,
        latency_p99_s=1e-3,
        batch_latency_s=batch_latency_s,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
    )


def test_a_model_that_takes_twice_as_long_costs_twice_as_much() -> None:
    price = serving_price(EXAMPLES / "pretraining.yaml")
    assert 0 < price(taken(0.032)) < 100.0  # a thousand seconds of a vCPU
    assert price(taken(0.064)) == pytest.approx(2 * price(taken(0.032)))


def test_what_no_candidate_keeps_to_is_infeasible(
    tmp_path: Path, measured: Callable[[Home], Home], capsys: pytest.CaptureFixture[str]
) -> None:
    file, home = tmp_path / "workload.yaml", measured(Home(path=tmp_path / ".gpuyard"))
    file.write_text(SELECT, encoding="utf-8")
    assert main(["run", str(file)]) == 3
    said = capsys.readouterr().out
    assert "infeasible: limits.size: " in said
    assert "  fix: " in said
    (run,) = Ledger(home=home).runs()
    stage = run.stage("select")
    assert stage is not None
    assert (stage.state, stage.exit_code, stage.attempt) == ("failed", 3, 1)
    assert stage.handle is not None
    assert "attempt" not in (Path(stage.handle.folder) / "log").read_text()  # it was not tried again
    assert main(["up", str(file)]) == 3
    assert "infeasible: limits.size: " in " ".join(capsys.readouterr().out.split())
