"""Fits the serving model to published runs and writes src/gpuyard/perf/inference/data/calibration.toml.

python tools/fit_inference.py RUNS.csv [ROUNDS]

Constants of memory and of cache transfers are kept: schedules follow from them. Needs scipy; some minutes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import load_catalog
from gpuyard.perf.inference import Calibration, read_calibration
from gpuyard.perf.inference.calibration import PATH
from gpuyard.perf.inference.published import read_cases
from gpuyard.perf.score import errors
from gpuyard.simulate.serving.fit import fit, read_constants
from gpuyard.simulate.serving.holdout import KEPT
from gpuyard.simulate.serving.schedules import METRICS, Schedules, schedules
from gpuyard.simulate.serving.score import measured

Reals = npt.NDArray[np.float64]
HEADER = """# Constants of the serving model, written by tools/fit_inference.py.
# value: shipped. prior, spread (of its logarithm), low, high: of the fit. source: where the prior comes from;
# fitted: a round guess. [residual]: log errors of the fit by engine and kind of chip, in sample.

"""


def main() -> None:
    """Fits, writes, and says how well."""
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
        cases = read_cases(csv.DictReader(file), load_catalog()).cases
    start = read_calibration()
    plans = schedules(cases, start)
    truth = np.array([measured(case.row) for case in plans.cases])
    names = [constant.name for constant in read_constants() if not constant.name.startswith(KEPT)]
    rows = np.arange(len(plans.cases))
    found = fit(plans, rows, truth, start, names, int(sys.argv[2]) if len(sys.argv) > 2 else 8)
    predicted = plans.predict(found, rows)
    PATH.write_text(HEADER + constants_text(found) + residuals_text(plans, predicted, truth), encoding="utf-8")
    for k, name in enumerate(METRICS):
        print(name, errors(predicted[:, k], truth[:, k]))


def constants_text(found: Calibration) -> str:
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
            blocks.append(f'[residual."{name}"]\nrows = {len(known)}\nmedian = {median:.4f}\nspread = {spread:.4f}\n\n')
    return "".join(blocks)


if __name__ == "__main__":
    main()
