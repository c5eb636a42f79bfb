"""`gpuyard accuracy inference`: the serving performance model against measured runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gpuyard.app.accuracy import read_rows
from gpuyard.calibrate.serving_holdout import Held, hold_out
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.errors import InputError
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import ServingBenchmarks
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.run_columns import shape_cells
from gpuyard.perf.score import OnProgress, ignore_progress
from gpuyard.simulate.serving.score import ServingScore, predictions, scored

NEEDED = {"id", "model", "chip", "n_chips", "engine", "scenario"}
COLUMNS = "id, model, chip, n_chips, engine, scenario, input_len, output_len"
LEAST_ROWS = 400  # to fit without some of them: twice what is fitted


def score_inference(
    path: Path,
    catalog: Catalog,
    trust: str = "AB",
    held: Held | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ServingScore:
    """Score the serving model on a CSV file; with `held`, by fits that held out each group."""
    calibration = read_calibration()
    cases = read_serving_runs(path, catalog, trust)
    if held is None:
        return scored(cases, predictions(cases.cases, calibration))
    if len(cases.cases) < LEAST_ROWS:
        raise InputError.one(
            str(path),
            f"{len(cases.cases)} runs are too few to fit without some of them",
            f"give {LEAST_ROWS} or more, of several models, chips and engines",
        )
    return scored(cases, hold_out(cases.cases, calibration, held, on_progress))


def read_serving_runs(path: Path, catalog: Catalog, trust: str = "AB") -> ServingBenchmarks:
    """Read a CSV file of serving runs."""
    rows = read_rows(path, NEEDED, "inference runs", COLUMNS)
    return read_cases([_shaped(row, catalog) for row in rows], catalog, trust)


def _shaped(row: dict[str, str], catalog: Catalog) -> dict[str, str]:
    """Fill missing columns with blanks, and a missing shape from the catalog."""
    whole = defaultdict(str, row)
    model = None if whole["layers"] else _model(row["model"], catalog)
    if model is not None and model.transformer is not None and model.transformer.moe is None:
        whole.update(shape_cells(model))
    return whole


def _model(name: str, catalog: Catalog) -> Model | None:
    for model in catalog.models:
        if name.casefold() in (known.casefold() for known in (model.name, *model.aliases)):
            return model
    return None
