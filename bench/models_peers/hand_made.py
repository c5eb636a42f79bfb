"""A careful baseline by hand with scikit-learn. `python hand_made.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def prepared(model: object) -> object:
    """The model behind imputation, one-hot encoding and scaling."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, model)


def main(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    train, test = (pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "test"))
    x, y = train.drop(columns=[task["label"]]), train[task["label"]]
    if task["classes"]:
        linear = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000)
        models = [linear, HistGradientBoostingClassifier(random_state=0)]
        scoring = "neg_log_loss"
    else:
        models = [RidgeCV(np.logspace(-3, 3, 13)), HistGradientBoostingRegressor(random_state=0)]
        scoring = "neg_root_mean_squared_error"
    scores = [
        cross_val_score(prepared(item), x, y, cv=5, scoring=scoring).mean() for item in models
    ]
    best = prepared(models[int(np.argmax(scores))]).fit(x, y)
    result = best.predict_proba(test) if task["classes"] else best.predict(test)
    np.save(folder / "predictions.npy", result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
