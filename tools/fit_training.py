"""Fits the training model to published runs and writes src/gpuyard/perf/data/calibration.toml.

python tools/fit_training.py RUNS.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from gpuyard.calibrate.training import calibration_text, fit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.calibration import PATH
from gpuyard.perf.runs import read_runs
from gpuyard.perf.score import errors, predict, scored_rows


def main() -> None:
    """Fits, writes, and says how well."""
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
        runs = read_runs(csv.DictReader(file), load_catalog())
    rows = scored_rows(runs)
    calibration = fit(runs, rows)
    PATH.write_text(calibration_text(calibration, runs, rows), encoding="utf-8")
    print(errors(predict(runs, calibration, rows), runs.reference_s[rows]))


if __name__ == "__main__":
    main()
