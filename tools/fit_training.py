"""Fits the training model to published runs; writes calibration.toml and error_bars.toml in src/gpuyard/perf/data.

python tools/fit_training.py RUNS.csv...
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from gpuyard.calibrate.error_bars import (
    error_bars_text,
    held_out_steps,
    measured_cells,
    measured_models,
    training_error_bars,
)
from gpuyard.calibrate.training import calibration_text, fit_training, refit
from gpuyard.catalog.load import load_catalog
from gpuyard.perf import error_bars
from gpuyard.perf.calibration import PATH
from gpuyard.perf.runs import read_runs
from gpuyard.perf.score import errors, predict, scored_rows


def collective_bars() -> dict[str, error_bars.ErrorBar]:
    """Return the error bars of collectives, which bench/accuracy_collectives.py writes."""
    shipped = error_bars.read_error_bars().bars
    return {name: bar for name, bar in shipped.items() if name.endswith("|collective")}


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
    steps = held_out_steps(runs, fit.calibration, refit)
    bars = training_error_bars(runs, steps) | collective_bars()
    table = error_bars.ErrorBars(
        bars=bars, cells=frozenset(measured_cells(runs)), models=frozenset(measured_models(runs))
    )
    error_bars.PATH.write_text(error_bars_text(table), encoding="utf-8")
    print(errors(predict(runs, fit.calibration, rows), runs.reference_s[rows]))


if __name__ == "__main__":
    main()
