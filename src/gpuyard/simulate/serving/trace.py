"""Request traces from CSV files: arrival times and token counts."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.document.read import read_text
from gpuyard.errors import InputError, Problem
from gpuyard.simulate.serving.load import Requests

Reals = npt.NDArray[np.float64]
COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
HEADER = ",".join(COLUMNS)
MAX_PROBLEMS = 20
MAX_BYTES = 1 << 30  # about forty million requests
MAX_TOKENS = 1e12  # of one request: sums stay exact as floats
MAX_SPAN_S = 1e9  # thirty years; beyond, a float of seconds is coarser than an iteration


def read_trace(path: Path) -> Requests:
    """Read a CSV file with the columns arrived_at (s), num_prefill_tokens, num_decode_tokens."""
    return parse_trace(read_text(path, MAX_BYTES), str(path))


def parse_trace(text: str, name: str) -> Requests:
    """Return the requests of CSV text; `name` is its place in error messages."""
    lines = csv.reader(io.StringIO(text))
    header = [cell.strip() for cell in next(lines, [])]
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        what = "the file is empty" if not header else f"no column {', '.join(missing)}"
        raise InputError.one(f"{name}:1", what, f'begin the file with the line "{HEADER}"')
    places = [header.index(column) for column in COLUMNS]
    table = _numbers(text, places)
    if table is None:
        table = np.array(_line_by_line(lines, places, name))
    if not len(table):
        raise InputError.one(f"{name}:2", "the trace has no requests", "add one line per request")
    table = table[np.argsort(table[:, 0], kind="stable")]
    span_s = float(table[-1, 0] - table[0, 0])
    if span_s > MAX_SPAN_S:
        what = (
            f"its requests span {span_s:.3g} s, more than the {MAX_SPAN_S:.0e} s that a"
            " simulation can resolve"
        )
        raise InputError.one(
            name, what, "set arrived_at in seconds, not milliseconds or nanoseconds"
        )
    return Requests(
        arrived_s=table[:, 0] - table[0, 0],
        prompt_tokens=table[:, 1].astype(np.int64),
        output_tokens=table[:, 2].astype(np.int64),
        cached_tokens=np.zeros(len(table), dtype=np.int64),
    )


def _numbers(text: str, places: list[int]) -> Reals | None:
    """Return the three columns, ten times as fast as cell by cell; None for invalid text."""
    if not text.partition("\n")[2].strip():
        return None
    try:
        table = np.loadtxt(
            io.StringIO(text), delimiter=",", skiprows=1, usecols=places, ndmin=2, comments=None
        )
    except ValueError:
        return None
    tokens = table[:, 1:]
    valid = np.isfinite(table).all() and (table[:, 0] >= 0.0).all()
    is_count = (tokens >= 1.0) & (tokens <= MAX_TOKENS) & (tokens == np.floor(tokens))
    return table if len(table) and valid and is_count.all() else None


def _line_by_line(
    lines: Iterable[list[str]], places: list[int], name: str
) -> list[tuple[float, int, int]]:
    """Return the requests line by line; raise InputError with the first invalid lines."""
    rows: list[tuple[float, int, int]] = []
    problems: list[Problem] = []
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        row = _row(cells, places)
        if isinstance(row, str):
            fix = (
                "give a time of 0 or more in seconds, and tokens as integers from 1 to "
                f"{MAX_TOKENS:g}"
            )
            problems.append(Problem(where=f"{name}:{number}", what=row, fix=fix))
        else:
            rows.append(row)
    if problems:
        raise InputError(problems[:MAX_PROBLEMS])
    return rows


def _row(cells: list[str], places: list[int]) -> tuple[float, int, int] | str:
    """Return one request, or the problem of its line."""
    if len(cells) <= max(places):
        return f"{len(cells)} cells where the header needs {max(places) + 1}"
    texts = [cells[place].strip() for place in places]
    for column, text in zip(COLUMNS, texts, strict=True):
        try:
            value = float(text)
        except ValueError:
            return f'{column}: "{text}" is not a number'
        minimum = 0.0 if column == "arrived_at" else 1.0
        if (
            not math.isfinite(value)
            or value < minimum
            or (column != "arrived_at" and (value > MAX_TOKENS or value != int(value)))
        ):
            return f"{column}: {text}"
    return float(texts[0]), int(float(texts[1])), int(float(texts[2]))
