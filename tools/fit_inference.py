"""Fits the serving model to published runs and writes src/gpuyard/perf/inference/data/calibration.toml.

python tools/fit_inference.py RUNS.csv

Constants of memory and of cache transfers are kept: schedules follow from them. Half a minute.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.mlperf_margins import with_margins
from gpuyard.calibrate.serving import FitResult, fit, read_constants
from gpuyard.calibrate.serving_gradient import FitRuns
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import PATH, ServingCalibration, read_calibration
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.score import errors
from gpuyard.simulate.serving.schedules import METRICS, Schedules, schedules
from gpuyard.simulate.serving.score import measured

Reals = npt.NDArray[np.float64]
HEADER = """# Constants of the serving model, written by tools/fit_inference.py.
# value: shipped, the prior times the effects on it. low, high: its bounds. spread (of its logarithm): of a constant
# that shares no effect. source: where the prior comes from; fitted: a round guess.
# [effect]: what was fitted, a factor over all constants that it names. [residual]: log errors of the fit by engine and
# kind of chip, in sample.

"""


def main() -> None:
    """Fits, writes, and says how well."""
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
        cases = read_cases(csv.DictReader(file), load_catalog()).cases
    start = read_calibration()
    plans = schedules(cases, start)
    truth = np.array([measured(case.row) for case in plans.cases])
    rows = np.arange(len(plans.cases))
    found = fit(FitRuns(plans, start), rows, truth)
    predicted = plans.predict(found.calibration, rows)
    final = with_margins(cases, found.calibration)
    text = constants_text(final) + effects_text(found) + residuals_text(plans, predicted, truth)
    PATH.write_text(HEADER + text, encoding="utf-8")
    for k, name in enumerate(METRICS):
        print(name, errors(predicted[:, k], truth[:, k]))


def constants_text(found: ServingCalibration) -> str:
    """The constants as TOML."""
    blocks = []
    for constant in read_constants():
        blocks.append(
            f'[constant."{constant.name}"]\n'
            f"value = {found[constant.name]:.6g}\n"
            f"prior = {constant.prior:.6g}\nlow = {constant.low:.6g}\nhigh = {constant.high:.6g}\n"
            f"spread = {constant.spread:.6g}\n"
            f'meaning = "{constant.meaning}"\nsource = "{constant.source}"\n\n'
        )
    return "".join(blocks)


def effects_text(found: FitResult) -> str:
    """The effects that runs showed, as TOML."""
    some = [(name, value) for name, value in found.effects.items() if value != 1.0]
    return "[effect]\n" + "".join(f'"{name}" = {value:.6g}\n' for name, value in some) + "\n"


def residuals_text(plans: Schedules, predicted: Reals, truth: Reals) -> str:
    """What the fit leaves, by engine and kind of chip: rows, median and median size of the log error."""
    size = np.log(np.maximum(predicted, 1e-9) / truth)[:, :3]
    groups = np.array([f"{case.engine.name}|{case.chip.kernels}" for case in plans.cases])
    blocks = []
    for name in np.unique(groups):
        left = size[groups == name]
        known = left[np.isfinite(left)]
        if len(known):
            median, spread = float(np.median(known)), float(np.median(np.abs(known)))
            blocks.append(
                f'[residual."{name}"]\nrows = {len(known)}\nmedian = {median:.4f}\nspread = {spread:.4f}\n\n'
            )
    return "".join(blocks)


if __name__ == "__main__":
    main()
