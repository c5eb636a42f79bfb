"""`gpuyard calibrate FILE...`: measured files of several formats become a profile or constants."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import yaml

from gpuyard.app.accuracy import calibrated_profile
from gpuyard.calibrate.nccl_tests import (
    CollectiveUpdate,
    is_nccl_tests,
    read_nccl_tests,
    update_constants,
)
from gpuyard.calibrate.training_log import is_training_log, row_of_log
from gpuyard.catalog.load import Catalog
from gpuyard.document.encode import plain
from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.perf.error_bars import training_error_bar
from gpuyard.perf.profiles import SoftwareProfile
from gpuyard.units import RATIO, show

MOST_BYTES = 64 * 2**20  # of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationInput:
    """Files of one format, and what the user says about them."""

    paths: tuple[Path, ...]
    texts: tuple[str, ...]
    name: Annotated[str, Doc("of the profile to write")]
    base: SoftwareProfile
    catalog: Catalog
    settings: Annotated[Mapping[str, str], Doc("columns that a log leaves open")] = field(
        default_factory=dict
    )
    network: Annotated[str, Doc("as in published tables: InfiniBand 8x400 Gb/s")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCalibration:
    """What to write, and what to print."""

    format: str
    document: Mapping[str, Plain]
    lines: tuple[str, ...]
    low_ratio: Annotated[float, Doc("5 % of measured values are below predicted / (1 + this)")]
    high_ratio: Annotated[float, Doc("5 % are above predicted × (1 + this)")]
    data: Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFormat:
    """A format of measured files."""

    name: str
    recognises: Callable[[str], bool]
    calibrate: Callable[[CalibrationInput], FileCalibration]


def calibrate_files(given: CalibrationInput) -> FileCalibration:
    """Calibrate with files that are all of one format."""
    formats = {_format_of(text) for text in given.texts}
    if len(formats) > 1:
        names = ", ".join(sorted(item.name for item in formats))
        raise InputError.one(
            "gpuyard calibrate",
            f"files of several formats: {names}",
            "calibrate one format at a time",
        )
    return formats.pop().calibrate(given)


def _format_of(text: str) -> CalibrationFormat:
    return next((item for item in FORMATS if item.recognises(text)), FORMATS[-1])


def _collectives(given: CalibrationInput) -> FileCalibration:
    items = [
        item
        for path, text in zip(given.paths, given.texts, strict=True)
        for item in read_nccl_tests(text, str(path), given.network)
    ]
    update: CollectiveUpdate = update_constants(items)
    before, after = show(update.before, RATIO), show(update.after, RATIO)
    moved = [f"{name}: {old:.4g} → {new:.4g}" for name, (old, new) in update.moved.items()]
    return FileCalibration(
        format="nccl-tests",
        document={
            "constants": {name: {"value": value} for name, value in update.constants.values.items()}
        },
        lines=(
            f"{update.points} sizes: mean error {before} with the shipped constants, {after} now",
            *moved,
        ),
        low_ratio=update.bar.low_ratio,
        high_ratio=update.bar.high_ratio,
        data={
            "points": update.points,
            "error_before": update.before,
            "error_after": update.after,
            "moved": {name: list(pair) for name, pair in update.moved.items()},
        },
    )


def _logs(given: CalibrationInput) -> FileCalibration:
    rows = [row_of_log(text, given.settings) for text in given.texts]
    if not all(row.get("chip") and row.get("n_chips") for row in rows):
        raise InputError.one(
            str(given.paths[0]),
            "the log does not state the chip or the number of chips",
            "add --set chip=h100-sxm n_chips=64, and what else the log leaves open (model, tp, pp)",
        )
    names = sorted({name for row in rows for name in row})
    table = io.StringIO()
    writer = csv.DictWriter(table, names, restval="")
    writer.writeheader()
    writer.writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / given.paths[0].with_suffix(".csv").name
        path.write_text(table.getvalue(), encoding="utf-8")
        return _steps(given, path, "training log")


def _tables(given: CalibrationInput) -> FileCalibration:
    if len(given.paths) > 1:
        raise InputError.one("gpuyard calibrate", "several CSV tables", "join them into one file")
    return _steps(given, given.paths[0], "table of steps")


def _steps(given: CalibrationInput, path: Path, name: str) -> FileCalibration:
    """Set the scalar of a profile from the measured steps of a table."""
    profile, scored = calibrated_profile(path, given.base, given.name, given.catalog)
    cells = plain(profile)
    assert isinstance(cells, dict)
    cells.pop("name")
    kinds = [group.name for group in scored.by_kind if group.errors.rows]
    bar = training_error_bar("group", "moe" if "moe" in kinds else "dense")
    errors, rows = scored.errors, scored.errors.rows
    left = show(round(errors.mean_abs_error or 0.0, 6), RATIO)
    return FileCalibration(
        format=name,
        document={"profiles": {given.name: cells}},
        lines=(
            f"scalar {profile.scalar:.3f}, from {rows} measured step{'s' * (rows > 1)}",
            f"mean error on them after calibration: {left}",
        ),
        low_ratio=bar.low_ratio,
        high_ratio=bar.high_ratio,
        data={"profile": plain(profile), "errors": plain(errors)},
    )


def _is_serving(text: str) -> bool:
    from gpuyard.calibrate.vllm_benchmark import is_vllm_benchmark

    try:
        return text.lstrip().startswith("{") and is_vllm_benchmark(json.loads(text))
    except ValueError:
        return False


def _serving(given: CalibrationInput) -> FileCalibration:
    from gpuyard.calibrate.serving_points import calibrate_serving  # imports Numba
    from gpuyard.calibrate.vllm_benchmark import ServingSetup, read_vllm_benchmark
    from gpuyard.perf.inference.calibration import read_calibration

    settings = given.settings
    setup = ServingSetup(
        chip=settings.get("chip", ""),
        model=settings.get("model", ""),
        tp=int(settings.get("tp") or 0),
        version=settings.get("version", ""),
        weights=settings.get("weights", ""),
    )
    points = [
        read_vllm_benchmark(json.loads(text), path.name, setup, given.catalog)
        for path, text in zip(given.paths, given.texts, strict=True)
    ]
    shipped = read_calibration()
    shift = calibrate_serving(points, shipped)
    tpot = shift.interval("tpot", points[0].case)
    moved = {
        name: value for name, value in shift.calibration.values.items() if value != shipped[name]
    }
    return FileCalibration(
        format="vLLM benchmark",
        document={"serving_constants": {name: {"value": value} for name, value in moved.items()}},
        lines=(
            *(f"{item.name}: × {item.factor:.3f}" for item in shift.shifts),
            "the interval below is of the time per output token",
        ),
        low_ratio=math.expm1(-tpot.low),
        high_ratio=math.expm1(tpot.high),
        data={"shifts": plain(shift.shifts), "points": plain(shift.points)},
    )


# In the order in which they are tried; a file that none recognises is read as a table of steps.
FORMATS = (
    CalibrationFormat(name="nccl-tests", recognises=is_nccl_tests, calibrate=_collectives),
    CalibrationFormat(name="vLLM benchmark", recognises=_is_serving, calibrate=_serving),
    CalibrationFormat(name="training log", recognises=is_training_log, calibrate=_logs),
    CalibrationFormat(name="table of steps", recognises=bool, calibrate=_tables),
)


def document_text(result: FileCalibration) -> str:
    """Return the file to write, as YAML."""
    plain_document = json.loads(json.dumps(result.document))
    return yaml.safe_dump(plain_document, sort_keys=False, allow_unicode=True)
