"""`gpuyard run --track` and `gpuyard runs track`: pipelines that export themselves."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.tracking import export as export_module
from gpuyard.jobs.tracking.export import read_statuses

from .pipelines import script_workload

SCRIPT = """
import json
for step in (1, 2, 3):
    print(json.dumps({"step": step, "loss": 1.0 / step}), flush=True)
"""


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return [(item.step, item.value) for item in reader.Scalars(name)]


def test_run_is_exported_although_its_other_tracker_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export_module, "FINISH_S", 5.0)
    file, home = script_workload(tmp_path / "w", SCRIPT), tmp_path / "home"
    with file.open("a") as text:
        text.write("  track: {tensorboard: boards}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{free.getsockname()[1]}"
    code = main(["run", str(file), "--home", str(home), "--track", f"mlflow={down}"])
    out = capsys.readouterr().out
    assert code == 0, out
    run = Ledger(home=Home(path=home)).get("last")
    board = tmp_path / "w" / "boards" / f"own-{run.id}"
    assert scalars(board, "train/loss") == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert f"tracked: {board}" in out
    assert f"fix: gpuyard runs track {run.id}" in out
    unsent = {item.target: item.finished for item in read_statuses(Path(run.folder))}
    assert unsent == {down: False, str(tmp_path / "w" / "boards"): True}

    later = tmp_path / "later"
    options = ["--track", f"tensorboard={later}", "--home", str(home)]
    assert main(["runs", "track", "last", *options]) == 4  # MLflow is still down
    assert "no response" in capsys.readouterr().err


def test_finished_run_is_exported_to_mlflow_afterwards(
    mlflow_server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuyard.registry.mlflow_client import connect_mlflow

    file, home = script_workload(tmp_path / "w", SCRIPT), tmp_path / "home"
    assert main(["run", str(file), "--home", str(home)]) == 0
    capsys.readouterr()
    assert main(["runs", "track", "last", "--home", str(home)]) == 2
    assert "names no tracker" in capsys.readouterr().err
    words = ["--track", f"mlflow={mlflow_server}", "--track", "experiment=own programs"]
    assert main(["runs", "track", "last", *words, "--home", str(home), "--json"]) == 0
    (tracker,) = json.loads(capsys.readouterr().out)["trackers"]
    client = connect_mlflow(mlflow_server)
    run = client.get("mlflow/runs/get", run_id=tracker["url"].rpartition("/")[2])["run"]
    assert isinstance(run, dict)
    data, info = run["data"], run["info"]
    assert isinstance(data, dict)
    assert isinstance(info, dict)
    assert info["status"] == "FINISHED"
    params = {item["key"]: item["value"] for item in data["params"]}  # type: ignore[union-attr,index,call-overload]
    assert params["train.command.run.1"] == "train.py"
    metrics = {item["key"]: item["value"] for item in data["metrics"]}  # type: ignore[union-attr,index,call-overload]
    assert metrics["train/loss"] == pytest.approx(1 / 3)
    files = set(client.files(str(info["artifact_uri"])))
    assert {"workload.yaml", "train/metrics.jsonl", "train/result.json"} <= files


def test_check_refuses_an_address_that_is_no_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script_workload(tmp_path / "w", SCRIPT)
    with file.open("a") as text:
        text.write("  track: {mlflow: mlruns}\n")
    assert main(["check", str(file)]) == 2
    assert "is not the address of a server" in capsys.readouterr().err
