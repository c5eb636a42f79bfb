"""`gpuyard accuracy inference`: the serving model against measured runs, fitted to all or without whole groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.app.accuracy import read_rows
from gpuyard.catalog import Catalog, Model, load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.cells import shape_cells
from gpuyard.perf.inference import Calibration, read_calibration
from gpuyard.perf.inference.published import Case, read_cases
from gpuyard.perf.score import Told, unheard
from gpuyard.simulate.serving import Score
from gpuyard.simulate.serving.holdout import Held, group_of, hold_out
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import measured, predictions, scored
from gpuyard.simulate.serving.slopes import Runs

__all__ = ["score_inference"]

NEEDED = {"id", "model", "chip", "n_chips", "engine", "scenario"}
COLUMNS = "id, model, chip, n_chips, engine, scenario, input_len, output_len"
LEAST_ROWS = 400  # to fit without some of them: twice what is fitted


def score_inference(
    path: Path, layers: Sequence[Path] = (), trust: str = "AB", held: Held | None = None, told: Told = unheard
) -> Score:
    """The serving model against the runs of a CSV file; `held`: each by a fit that has not seen its group."""
    catalog, calibration = load_catalog(layers), read_calibration()
    rows = [_shaped(row, catalog) for row in read_rows(path, NEEDED, "inference runs", COLUMNS)]
    cases = read_cases(rows, catalog, trust)
    if held is None:
        return scored(cases, predictions(cases.cases, calibration))
    if len(cases.cases) < LEAST_ROWS:
        raise InputError.one(
            str(path), f"{len(cases.cases)} runs are too few to fit without some of them",
            f"give {LEAST_ROWS} or more, of several models, chips and engines",
        )  # fmt: skip
    return scored(cases, _held_out(cases.cases, calibration, held, told))


def _held_out(cases: Sequence[Case], calibration: Calibration, by: Held, told: Told) -> npt.NDArray[np.float64]:
    """Predictions of every run by a fit without its group; runs in real time are simulated with that fit."""
    plans = schedules(cases, calibration)
    truth = np.array([measured(case.row) for case in plans.cases])
    planned, fits = hold_out(Runs(plans, calibration), truth, by, told=told)
    place = {case.row["id"]: index for index, case in enumerate(plans.cases)}
    result = np.full((len(cases), 4), np.nan)
    rest: dict[int, list[int]] = {}
    for index, case in enumerate(cases):
        if case.row["id"] in place:
            result[index] = planned[place[case.row["id"]]]
            continue
        name = group_of(case, by)
        rest.setdefault(next((k for k, (out, _) in enumerate(fits) if name in out), 0), []).append(index)
    for k, some in rest.items():
        result[some] = predictions([cases[index] for index in some], fits[k][1])
    return result


def _shaped(row: dict[str, str], catalog: Catalog) -> dict[str, str]:
    """The row with blanks for columns that the file leaves out, and the catalog's shape where it gives none."""
    whole = defaultdict(str, row)
    found = None if whole["layers"] else _model(row["model"], catalog)
    if found is not None and found.transformer is not None and found.transformer.moe is None:
        whole.update(shape_cells(found))
    return whole


def _model(name: str, catalog: Catalog) -> Model | None:
    """The catalog's model of that name or alias, capitals aside."""
    for model in catalog.models:
        if name.casefold() in (known.casefold() for known in (model.name, *model.aliases)):
            return model
    return None
