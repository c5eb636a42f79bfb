"""Runs on a real MLflow server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyard.document.frozen_json import Plain
from gpuyard.jobs.records import MetricPoint
from gpuyard.jobs.tracking.mlflow import MlflowTracker, key
from gpuyard.jobs.tracking.tracker import RunDescription
from gpuyard.registry.mlflow_client import MlflowClient, connect_mlflow

RUN = RunDescription(
    id="abc123",
    name="iris",
    state="running",
    created_s=1_700_000_000.25,
    ended_s=None,
    settings=(("data.steps[0].clip.columns[1]", "x" * 7000), ("train.trees.rounds", "20")),
    tags=(("owner", "ann"),),
    note="first",
    scores=(),
    files=(),
)


def remote(client: MlflowClient, url: str) -> dict[str, Plain]:
    run = client.get("mlflow/runs/get", run_id=url.rpartition("/")[2])["run"]
    assert isinstance(run, dict)
    return run


def history(client: MlflowClient, url: str, name: str) -> list[tuple[int, float]]:
    run_id = url.rpartition("/")[2]
    rows = client.get("mlflow/metrics/get-history", run_id=run_id, metric_key=name)["metrics"]
    return [(int(row["step"]), float(row["value"])) for row in rows]  # type: ignore[union-attr,index,call-overload,arg-type]


def test_run_has_settings_metrics_by_step_tags_and_artefacts(
    mlflow_server: str, tmp_path: Path
) -> None:
    client = connect_mlflow(mlflow_server)
    tracker = MlflowTracker(client, "flowers")
    url = tracker.start(RUN)
    steps = [MetricPoint(step=step, name="loss", value=1 / step, time_s=2e9) for step in (1, 2)]
    tracker.log("train", steps)
    assert remote(client, url)["info"]["status"] == "RUNNING"  # type: ignore[index,call-overload]
    many = [MetricPoint(step=step, name="rate", value=float(step)) for step in range(1001)]
    tracker.log("train", many)
    tracker.log("train", [MetricPoint(step=3, name="loss", value=None, time_s=2e9 + 1)])
    (tmp_path / "workload.yaml").write_text("task: pretraining\n")
    ended = replace(
        RUN,
        state="done",
        ended_s=1_700_000_009.0,
        note="second",
        scores=(("test/accuracy", 0.9),),
        files=(("data/a b.json", tmp_path / "workload.yaml"), ("gone", tmp_path / "gone")),
    )
    tracker.finish(ended)
    run = remote(client, url)
    data, info = run["data"], run["info"]
    assert isinstance(data, dict)
    assert isinstance(info, dict)
    pairs = {
        kind: {item["key"]: item["value"] for item in data[kind]}  # type: ignore[union-attr,index,call-overload]
        for kind in ("params", "tags", "metrics")
    }
    assert pairs["params"]["train.trees.rounds"] == "20"
    assert len(str(pairs["params"]["data.steps.0.clip.columns.1"])) == 6000
    assert (pairs["tags"]["owner"], pairs["tags"]["gpuyard.run"]) == ("ann", "abc123")
    assert pairs["tags"]["mlflow.note.content"] == "second"
    assert pairs["metrics"]["test/accuracy"] == 0.9
    assert (info["status"], info["start_time"], info["end_time"]) == (
        "FINISHED",
        1_700_000_000_250,
        1_700_000_009_000,
    )
    assert history(client, url, "train/loss")[:2] == [(1, 1.0), (2, 0.5)]
    assert len(history(client, url, "train/rate")) == 1001
    assert list(client.files(str(info["artifact_uri"]))) == ["data/a b.json"]


def test_another_process_finds_the_run_and_repeats_nothing(mlflow_server: str) -> None:
    client = connect_mlflow(mlflow_server)
    run = replace(RUN, id="def456")
    step = [MetricPoint(step=1, name="loss", value=1.0, time_s=2e9)]
    urls = []
    for state in ("running", "failed"):
        tracker = MlflowTracker(client, "flowers")
        urls.append(tracker.start(run))
        tracker.log("train", step)
        tracker.finish(replace(run, state=state))
    assert urls[0] == urls[1]
    assert history(client, urls[0], "train/loss") == [(1, 1.0)]
    assert remote(client, urls[0])["info"]["status"] == "FAILED"  # type: ignore[index,call-overload]
    other_home = MlflowTracker(client, "flowers").start(replace(run, created_s=9.0))
    assert other_home != urls[0]


def test_names_are_written_as_mlflow_allows_them() -> None:
    assert key("data.steps[0].clip (x)") == "data.steps.0.clip _x_"
    assert len(key("x" * 300)) == 250
