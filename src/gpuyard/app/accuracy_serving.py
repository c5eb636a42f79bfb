"""`gpuyard accuracy inference`: the serving model against measured runs, fitted to all or without whole groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.accuracy import read_rows
from gpuyard.catalog import Catalog, Model, load_catalog
from gpuyard.errors import InputError
from gpuyard.perf.cells import shape_cells
from gpuyard.perf.inference import read_calibration
from gpuyard.perf.inference.published import read_cases
from gpuyard.perf.score import Told, unheard
from gpuyard.simulate.serving import Score
from gpuyard.simulate.serving.holdout import Held, hold_out
from gpuyard.simulate.serving.score import predictions, scored

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
    return scored(cases, hold_out(cases.cases, calibration, held, told))


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
