"""AutoGluon with its medium preset. `python autogluon_medium.py FOLDER`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor


def main(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    train, test = (pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "test"))
    classes = task["classes"]
    problem = "regression" if not classes else "binary" if len(classes) == 2 else "multiclass"
    metric = "log_loss" if classes else "root_mean_squared_error"
    with tempfile.TemporaryDirectory() as place:
        predictor = TabularPredictor(
            label=task["label"], problem_type=problem, eval_metric=metric, path=place, verbosity=0
        ).fit(train, presets="medium_quality")
        if classes:
            result = predictor.predict_proba(test)[classes].to_numpy()
        else:
            result = predictor.predict(test).to_numpy()
    np.save(folder / "predictions.npy", result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
