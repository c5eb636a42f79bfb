"""Runs compared: settings that differ, metrics, filters, order, tags and notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.app.run_comparison import compare_runs, note_run, tag_run
from gpuyard.cli.main import main
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics
from gpuyard.jobs.spec import EngineSpec

WORKLOAD = """\
task: pretraining
name: iris
pipeline:
  data: {{source: "sklearn:iris", label: target, steps: [{{zscore: {{}}}}]}}
  train: {{trees: {{rounds: {rounds}}}}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Three finished runs with 5, 10 and 20 rounds, the last the best."""
    home = Home(path=tmp_path / "home")
    ledger = Ledger(home=home)
    for rounds in (5, 10, 20):
        run = ledger.begin(
            name="iris",
            workload=WORKLOAD.format(rounds=rounds),
            engine=EngineSpec(),
            stages=("train",),
            run_id=f"run{rounds}",
        )
        path = tmp_path / f"{rounds}.jsonl"
        lines = [{"step": step, "loss": 1 / (step * rounds), "epoch": 1.0} for step in (1, 2)]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        import_metrics(ledger, run.id, "train", path)
        ledger.start(run.id, "train")
        ledger.finish(run.id, "train", state="done", result="")
        ledger.end(run.id, "done")
    return home


def ids(home: Home, *run_ids: str, **options: object) -> list[str]:
    comparison = compare_runs(home, run_ids, **options)  # type: ignore[arg-type]
    return [row.run.id for row in comparison.runs]


def test_settings_that_differ_and_last_metrics_are_shown(home: Home) -> None:
    comparison = compare_runs(home, ("run5", "run20"))
    assert comparison.settings == ("train.trees.rounds",)
    assert comparison.metrics == ("train.loss",)
    first, second = comparison.runs
    assert (first.value("train.trees.rounds"), second.value("train.loss")) == ("5", 0.025)
    assert "data.label" in compare_runs(home, ("run5",), all_settings=True).settings


def test_runs_are_filtered_and_sorted(home: Home) -> None:
    assert ids(home, sort="train.loss") == ["run20", "run10", "run5"]
    assert ids(home, sort="-train.loss") == ["run5", "run10", "run20"]
    assert ids(home, conditions=["train.loss<0.06", "train.trees.rounds != 20"]) == ["run10"]
    assert ids(home, conditions=["data.label=target"], sort="id") == ["run10", "run20", "run5"]
    tag_run(home, "run10", ["owner=ann", "baseline"])
    assert ids(home, conditions=["baseline"]) == ["run10"]
    assert ids(home, conditions=["owner=ann"]) == ["run10"]
    assert ids(home, sort="owner")[0] == "run10"  # those without it come last


def test_tags_and_notes_are_kept_and_replaced(home: Home) -> None:
    tag_run(home, "run5", ["a", "owner=ann"])
    assert tag_run(home, "run5", ["-a", "owner=bob"]).tags == (("owner", "bob"),)
    assert note_run(home, "run5", "first try").note == "first try"
    assert Ledger(home=home).get("run5").tags == (("owner", "bob"),)
    with pytest.raises(InputError, match="does not have it"):
        tag_run(home, "run5", ["-a"])


@pytest.mark.parametrize("options", [{"sort": "train.los"}, {"conditions": ["train.los<1"]}])
def test_unknown_names_are_refused_with_the_closest(home: Home, options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r'did you mean "train\.loss"'):
        ids(home, **options)


def test_command_prints_runs_side_by_side_and_as_json(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--home", str(home.path)]
    assert main(["runs", "tag", "run5", "small", *place]) == 0
    assert main(["runs", "note", "run5", "a note", *place]) == 0
    capsys.readouterr()
    assert main(["runs", "compare", "run5", "run20", *place]) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in ("train.trees.rounds", "0.025", "small", "a note"))
    assert main(["runs", "compare", "--sort", "train.loss", "--json", *place]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in tree["runs"]] == ["run20", "run10", "run5"]
    assert tree["runs"][2]["tags"] == {"small": ""}
    assert main(["runs", "compare", *place]) == 0
    assert "train.loss" in capsys.readouterr().out
    assert main(["runs", "compare", "--filter", "train.loss>9", *place]) == 0
    assert "no run meets" in capsys.readouterr().out


def test_a_name_without_any_run_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gpuyard run FILE"):
        compare_runs(Home(path=tmp_path / "none"), sort="loss")


def test_a_run_with_results_of_another_version_is_compared_without_scores(home: Home) -> None:
    ledger = Ledger(home=home)
    run = ledger.begin(
        name="old", workload="task: pretraining\n", engine=EngineSpec(), stages=("evaluate",)
    )
    ledger.start(run.id, "evaluate")
    ledger.finish(run.id, "evaluate", state="done", result="")
    folder = Path(run.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    assert compare_runs(home, (run.id, "run5")).runs[0].metrics == ()
