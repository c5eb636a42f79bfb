"""Errors of the NCCL time model against published bus bandwidths; with --fit, fits its constants and writes them.

python bench/accuracy_collectives.py ROWS.csv...            errors with the shipped constants
python bench/accuracy_collectives.py ROWS.csv... --hold-out each system predicted by constants fitted on the others
python bench/accuracy_collectives.py ROWS.csv... --fit      fits on all rows; writes constants and error bars
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuyard.calibrate.collectives import (
    collective_error_bars,
    constants_text,
    fit_collectives,
    hold_out_families,
)
from gpuyard.calibrate.error_bars import error_bars_text
from gpuyard.perf import error_bars
from gpuyard.perf.error_bars import ErrorBar, read_error_bars
from gpuyard.perf.score import ErrorStats
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, read_constants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import CollectiveScore, score_measured


def write(items: Sequence[MeasuredCollective]) -> None:
    """Fits, and writes the constants and the error bars."""
    fit = fit_collectives(items)
    CONSTANTS_PATH.write_text(constants_text(fit, len(items)), encoding="utf-8")
    held_out = hold_out_families(items, fit.constants)
    write_bars(collective_error_bars(held_out, score_measured(items, (), fit.constants)))


def write_bars(bars: Mapping[str, ErrorBar]) -> None:
    """Replaces the bars of collectives in the data file."""
    table = read_error_bars()
    others = {name: bar for name, bar in table.bars.items() if not name.endswith("|collective")}
    text = error_bars_text(replace(table, bars=others | dict(bars)))
    error_bars.PATH.write_text(text, encoding="utf-8")


def show(title: str, score: CollectiveScore) -> None:
    """The table on the screen."""
    print(
        f"\n{title}\n{'':52}{'rows':>5}{'mean':>8}{'median':>8}{'p90':>8}{'bias':>8}{'in 90 %':>8}"
    )

    def line(name: str, errors: ErrorStats) -> None:
        cells = (
            errors.mean_abs_error,
            errors.median_abs_error,
            errors.p90_abs_error,
            errors.bias,
            errors.coverage,
        )
        print(
            f"{name[:51]:52}{errors.rows:5}"
            + "".join(f"{100 * (cell or 0.0):7.1f}%" for cell in cells)
        )

    line("all", score.overall)
    line("measured", score.measured)
    line("shares of a line rate", score.relative)
    for group in (*score.by_size, *score.by_collective, *score.by_system):
        line(group.name, group.errors)
    print(
        f"{score.coarse_count} rows scored as a band, {len(score.refused)} rows without a usable number"
    )


def main() -> None:
    """Reads, scores, fits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--rows", action="store_true", help="every row")
    arguments = parser.parse_args()
    table: list[dict[str, str]] = []
    for name in arguments.files:
        with open(name, encoding="utf-8", newline="") as file:
            table += csv.DictReader(file)
    measured, refused = read_measured(table)
    if arguments.fit:
        write(measured)
        read_constants.cache_clear()
        error_bars.read_error_bars.cache_clear()
    score = score_measured(measured, refused, read_constants())
    show("shipped constants", score)
    if arguments.rows:
        for row in score.rows:
            item = row.measured
            print(
                f"{item.system[:28]:29}{item.cluster.ranks:5} {item.collective:11}{item.size_bytes:14.0f}"
                f"{item.time_s * 1e6:12.1f}{row.predicted_s * 1e6:12.1f} us {100 * row.error:7.1f}%"
            )
    if arguments.hold_out:
        show("each system held out of the fit", hold_out_families(measured, read_constants()))


if __name__ == "__main__":
    main()
