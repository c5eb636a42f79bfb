"""gpuyard's contender: `gy.select` with its defaults. `python gpuyard_select.py FOLDER`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gpuyard as gy


def main(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    train, test = (pl.read_parquet(folder / f"{name}.parquet") for name in ("train", "test"))
    label, classes = task["label"], task["classes"]
    texts = [name for name, kind in train.schema.items() if kind == pl.String and name != label]
    steps: list[dict[str, object]] = [{"impute": {}}]
    if texts:
        steps += [{"impute": {"columns": texts, "value": "mode"}}, {"onehot": {"columns": texts}}]
    steps.append({"zscore": {}})
    with tempfile.TemporaryDirectory(prefix="gpuyard-home-") as home:
        data = gy.prepare(train, label=label, steps=steps, problem=task["problem"], home=home)
        metric = "log_loss" if classes else "rmse"
        chosen = gy.select(data, metric=metric, home=home)
        answer = gy.predict(chosen, test, home=home)
    if classes:
        result = answer.select([f"p({name})" for name in classes]).to_numpy()
    else:
        result = answer["prediction"].to_numpy()
    np.save(folder / "predictions.npy", result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
