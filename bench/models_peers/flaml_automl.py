"""FLAML with a time budget. `python flaml_automl.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from flaml import AutoML

BUDGET_S = 30


def main(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    train, test = (pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "test"))
    x, y = train.drop(columns=[task["label"]]), train[task["label"]]
    automl = AutoML()
    automl.fit(
        x,
        y,
        task=task["problem"],
        metric="log_loss" if task["classes"] else "rmse",
        time_budget=BUDGET_S,
        seed=0,
        verbose=0,
    )
    result = automl.predict_proba(test) if task["classes"] else automl.predict(test)
    np.save(folder / "predictions.npy", result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
