"""Fits the training model to published runs and writes src/gpuyard/perf/data/calibration.toml.

python tools/fit_training.py RUNS.csv...
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from gpuyard.calibrate.training import calibration_text, fit_training
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import PATH
from gpuyard.perf.runs import read_runs
from gpuyard.perf.score import errors, predict, scored_rows


def main() -> None:
    """Fits, writes, and prints how well."""
    table: list[dict[str, str]] = []
    for name in sys.argv[1:]:
        with Path(name).open(newline="", encoding="utf-8") as file:
            table += csv.DictReader(file)
    runs = read_runs(table, load_catalog())
    rows = scored_rows(runs)
    fit = fit_training(runs, rows)
    PATH.write_text(calibration_text(fit, runs, rows), encoding="utf-8")
    print(errors(predict(runs, fit.calibration, rows), runs.reference_s[rows]))


if __name__ == "__main__":
    main()
