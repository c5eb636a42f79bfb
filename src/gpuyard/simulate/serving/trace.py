"""Traces of requests from CSV files: when each arrived, and its tokens."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from gpuyard.document import read_text
from gpuyard.errors import InputError, Problem
from gpuyard.simulate.serving.load import Requests

__all__ = ["COLUMNS", "parse_trace", "read_trace"]

COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
HEADER = ",".join(COLUMNS)
MOST_PROBLEMS = 20


def read_trace(path: Path) -> Requests:
    """The requests of a CSV file with the columns arrived_at (seconds), num_prefill_tokens and num_decode_tokens."""
    return parse_trace(read_text(path), str(path))


def parse_trace(text: str, name: str) -> Requests:
    """The requests of CSV text; `name` says where it is from in problems."""
    lines = csv.reader(io.StringIO(text))
    header = [cell.strip() for cell in next(lines, [])]
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        what = "the file is empty" if not header else f"no column {', '.join(missing)}"
        raise InputError.one(f"{name}:1", what, f'begin the file with the line "{HEADER}"')
    places = [header.index(column) for column in COLUMNS]
    rows: list[tuple[float, int, int]] = []
    problems: list[Problem] = []
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        found = _row(cells, places)
        if isinstance(found, str):
            fix = "give a time of 0 or more in seconds, and whole numbers of tokens of 1 or more"
            problems.append(Problem(where=f"{name}:{number}", what=found, fix=fix))
        else:
            rows.append(found)
    if problems:
        raise InputError(problems[:MOST_PROBLEMS])
    if not rows:
        raise InputError.one(f"{name}:2", "the trace has no requests", "add a line for each request")
    rows.sort(key=lambda row: row[0])
    table = np.array(rows)
    return Requests(
        arrived_s=table[:, 0] - table[0, 0],
        prompt_tokens=table[:, 1].astype(np.int64),
        output_tokens=table[:, 2].astype(np.int64),
        cached_tokens=np.zeros(len(rows), dtype=np.int64),
    )


def _row(cells: list[str], places: list[int]) -> tuple[float, int, int] | str:
    """One request, or what is wrong with its line."""
    if len(cells) <= max(places):
        return f"{len(cells)} cells where the header needs {max(places) + 1}"
    texts = [cells[place].strip() for place in places]
    for column, text in zip(COLUMNS, texts, strict=True):
        try:
            value = float(text)
        except ValueError:
            return f'{column}: "{text}" is not a number'
        least = 0.0 if column == "arrived_at" else 1.0
        if not math.isfinite(value) or value < least or (column != "arrived_at" and value != int(value)):
            return f"{column}: {text}"
    return float(texts[0]), int(float(texts[1])), int(float(texts[2]))
