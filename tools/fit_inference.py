"""Fits the serving model to published runs and writes src/gpuyard/perf/inference/data/calibration.toml.

python tools/fit_inference.py RUNS.csv [SERVERS.csv ...] [--select COUNT]

The effects in the file are estimated again, from the priors in constants.toml; --select chooses the COUNT effects that
the runs show most clearly. MLPerf servers of all tables give the margins of servers. A minute on one core.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpuyard.calibrate.mlperf_margins import RATIOS, WAITS, is_server, with_margins
from gpuyard.calibrate.serving import FitResult, fit, shipped_effects
from gpuyard.calibrate.serving_gradient import FitRuns
from gpuyard.calibrate.serving_selection import select_effects
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import PATH, ServingCalibration, read_calibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.score import errors
from gpuyard.simulate.serving.schedules import METRICS, schedules
from gpuyard.simulate.serving.score import measured

HEADER = """# Fitted numbers of the serving model, written by tools/fit_inference.py.
# effect: factor on the priors in constants.toml of the constants that share it, and the standard error of its logarithm
# with runs of one model and release as one draw. margin: of MLPerf servers, from the fit's predictions.

"""


def main() -> None:
    """Fits, writes, and prints the errors in sample."""
    files = [argument for argument in sys.argv[1:] if argument.endswith(".csv")]
    fitted, *others = (read(Path(file)) for file in files)
    start = read_calibration()
    plans = schedules(fitted, start)
    truth = np.array([measured(case.row) for case in plans.cases])
    rows, runs = np.arange(len(plans.cases)), FitRuns(plans, start)
    effects = shipped_effects()
    if "--select" in sys.argv:
        effects = select_effects(runs, truth, int(sys.argv[sys.argv.index("--select") + 1]))
    result = fit(runs, rows, truth, effects=effects)
    ids = {case.row["id"] for case in fitted}
    new = [case for cases in others for case in cases if case.row["id"] not in ids]
    servers = {case.row["id"]: case for case in (*fitted, *new) if is_server(case)}
    final = with_margins(list(servers.values()), result.calibration)
    PATH.write_text(HEADER + text_of(result, final), encoding="utf-8")
    predicted = plans.predict(result.calibration, rows)
    for k, name in enumerate(METRICS):
        print(name, errors(predicted[:, k], truth[:, k]))


def read(file: Path) -> Sequence[ServingBenchmark]:
    """The supported runs of a table."""
    with file.open(newline="", encoding="utf-8") as lines:
        return read_cases(csv.DictReader(lines), load_catalog()).cases


def text_of(result: FitResult, final: ServingCalibration) -> str:
    """Effects and margins as TOML."""
    blocks = [
        f'[effect."{effect.name}"]\nfactor = {effect.factor:.5g}\nerror = {effect.error:.2g}\n\n'
        for effect in result.effects
    ]
    margins = [f'"{name}" = {final[name]:.4g}\n' for name in (*RATIOS, *WAITS)]
    return "".join([*blocks, "[margin]\n", *margins])


if __name__ == "__main__":
    main()
