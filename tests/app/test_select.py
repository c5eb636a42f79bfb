"""The serving price of a candidate, and limits that no candidate meets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.select import serving_price
from gpuyard.catalog.load import load_catalog
from gpuyard.cli.main import main
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.learn.select.selection import Footprint

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


def footprint(batch_latency_s: float) -> Footprint:
    """The footprint of a model that takes this long for 32 rows."""
    return Footprint(
        latency_s=1e-3,
        latency_p99_s=1e-3,
        batch_latency_s=batch_latency_s,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
    )


def test_serving_price_is_proportional_to_batch_latency() -> None:
    price = serving_price(EXAMPLES / "pretraining.yaml", load_catalog())
    assert 0 < price(footprint(0.032)) < 100.0  # 1000 vCPU-seconds
    assert price(footprint(0.064)) == pytest.approx(2 * price(footprint(0.032)))


def test_serving_price_without_planned_machines_raises_input_error(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(SELECT, encoding="utf-8")
    with pytest.raises(InputError, match=r"select\.limits\.cost"):
        serving_price(file, load_catalog())


@pytest.mark.slow
def test_limits_that_no_candidate_meets_are_infeasible_and_not_retried(
    tmp_path: Path, measured: Callable[[Home], Home], capsys: pytest.CaptureFixture[str]
) -> None:
    file, home = tmp_path / "workload.yaml", measured(Home(path=tmp_path / ".gpuyard"))
    file.write_text(SELECT, encoding="utf-8")
    assert main(["run", str(file)]) == 3
    assert "limits.size" in capsys.readouterr().out
    (run,) = Ledger(home=home).runs()
    stage = run.stage("select")
    assert stage is not None
    assert (stage.state, stage.exit_code, stage.attempt) == ("failed", 3, 1)
    assert stage.handle is not None
    assert "attempt" not in (Path(stage.handle.folder) / "log").read_text()
    assert main(["up", str(file)]) == 3
    assert "limits.size" in capsys.readouterr().out
