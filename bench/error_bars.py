"""Error bars of training predictions by distance: `python bench/error_bars.py FILE.csv`.

The 90th percentile of the error factor of the step time with a fifth of all sources, or of all chips,
held out of the fit at a time. Needs scipy; about ten minutes on one core.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.runs import read_runs
from gpuyard.perf.score import predict, scored_rows, source_of

FOLDS = 5


def main() -> None:
    """Prints the error bars of step time."""
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
        runs = read_runs(csv.DictReader(file), load_catalog())
    rows, calibration = scored_rows(runs), read_calibration()
    sources = np.array([source_of(row["id"]) for row in runs.rows])
    chips = np.array([silicon.name for silicon in runs.silicon])
    tpu = np.array([silicon.generation == "tpu" for silicon in runs.silicon])
    kinds = np.where(tpu, "tpu", np.where(runs.arch.experts > 0, "moe", "dense"))
    for name, groups in (("source", sources), ("chip", chips)):
        names = np.unique(groups[rows])
        np.random.default_rng(0).shuffle(names)
        fold = {group: index % FOLDS for index, group in enumerate(names)}
        predicted = np.full(len(runs.rows), np.nan)
        for number in range(FOLDS):
            test = np.array([i for i in rows if fold[groups[i]] == number], dtype=np.int64)
            fitted = refit(runs, np.setdiff1d(rows, test), calibration)
            predicted[test] = predict(runs, fitted, test)
        factor = np.abs(np.log(predicted / runs.reference_s))
        for kind in ("dense", "moe", "tpu"):
            own = [i for i in rows if kinds[i] == kind]
            print(
                f"{name} {kind}: {len(own)} rows, p90 {np.expm1(np.quantile(factor[own], 0.9)):.3f}"
            )


if __name__ == "__main__":
    main()
