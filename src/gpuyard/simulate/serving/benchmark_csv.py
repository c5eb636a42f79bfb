"""Read CSV tables of serving benchmarks, with errors by row and column."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.perf.inference.run_columns import Row

NEEDED = (
    "id", "model", "layers", "hidden", "heads", "vocab", "chip", "n_chips", "engine", "scenario",
    "input_len", "output_len",
)  # fmt: skip
# what a table may leave out; a blank cell is "the source does not say"
COLUMNS = (
    *NEEDED, "tier", "date", "kv_heads", "head_dim", "ffn", "moe", "weights_prec", "act_prec",
    "kv_prec", "tp", "pp", "ep", "dp", "disagg", "engine_ver", "batch", "concurrency", "qps",
    "n_requests", "len_note", "out_tok_s_total", "req_s", "ttft_ms_mean", "tpot_ms_mean",
    "itl_ms_mean", "e2e_ms_mean", "source", "source_ver", "dup_of", "notes",
)  # fmt: skip
DEFAULTS = {"tier": "A", "date": "2026"}


def read_table(path: Path) -> tuple[Row, ...]:
    """The rows of a CSV file, every column that the model reads in each."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    missing = [column for column in NEEDED if column not in (reader.fieldnames or ())]
    if missing:
        what = "the file is empty" if not reader.fieldnames else f"no column {', '.join(missing)}"
        raise InputError.one(
            f"{path}:1", what, f"begin the file with a line of columns, at least {','.join(NEEDED)}"
        )
    try:
        rows = tuple(
            {column: row.get(column) or DEFAULTS.get(column, "") for column in COLUMNS}
            for row in reader
        )
    except csv.Error as error:
        raise InputError.one(
            f"{path}:{reader.line_num}", f"not CSV: {error}", "save it as UTF-8 CSV"
        ) from None
    if not rows:
        raise InputError.one(
            f"{path}:2", "the table has no runs", "add a line for each measured run"
        )
    return rows
