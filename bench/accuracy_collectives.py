"""Errors of the NCCL time model against published bus bandwidths; with --fit, fits its constants and writes them.

python bench/accuracy_collectives.py ROWS.csv            errors with the shipped constants
python bench/accuracy_collectives.py ROWS.csv --hold-out each system predicted by constants fitted on the others
python bench/accuracy_collectives.py ROWS.csv --fit      fits on all rows and writes src/gpuyard/simulate/data/nccl.toml
"""

from __future__ import annotations

import argparse
import collections
import csv
import math
import tomllib
from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from gpuyard.perf.score import ErrorStats
from gpuyard.simulate.collectives.constants import NCCL_PATH, NcclConstants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import (
    CollectiveScore,
    ScoredRow,
    predicted_s,
    row_errors,
    score_measured,
    score_rows,
)

# name: start, low, high, strength of the start (rows that it weighs as much as), unit, meaning
TUNER = "NCCL src/graph/tuning.cc"
TABLE: dict[str, tuple[float, float, float, float, str, str]] = {
    "base_ll_s": (
        6.7e-6,
        4e-6,
        12e-6,
        3,
        "s",
        f"launch of a low-latency collective ({TUNER}: 6.6 to 6.8)",
    ),
    "step_ll_s": (
        0.6e-6,
        0.4e-6,
        1.5e-6,
        3,
        "s",
        f"a step over NVLink, low latency ({TUNER}: 0.6)",
    ),
    "base_simple_s": (8.4e-6, 6e-6, 20e-6, 3, "s", f"launch of a bulk collective ({TUNER}: 8.4)"),
    "step_simple_s": (3.4e-6, 1.5e-6, 6e-6, 3, "s", f"a step over NVLink, bulk ({TUNER}: 3.4)"),
    "base_nvls_s": (
        25e-6,
        10e-6,
        40e-6,
        3,
        "s",
        f"a collective that the NVLink switch sums ({TUNER}: 25)",
    ),
    "base_nvls_tree_s": (
        70e-6,
        20e-6,
        200e-6,
        0.3,
        "s",
        "the same with a tree of servers, without its hops",
    ),
    "step_exchange_s": (1e-6, 0.1e-6, 5e-6, 2, "s", "a peer of an all-to-all"),
    "hop_s|rdma": (
        14e-6,
        5e-6,
        30e-6,
        3,
        "s",
        f"from server to server, InfiniBand or RoCE ({TUNER}: 14)",
    ),
    "hop_s|tcpxo": (60e-6, 20e-6, 120e-6, 1, "s", "from server to server, GPUDirect-TCPXO"),
    "hop_s|tcpx": (100e-6, 20e-6, 900e-6, 1, "s", "from server to server, GPUDirect-TCPX"),
    "hop_s|efa": (
        28e-6,
        10e-6,
        80e-6,
        1,
        "s",
        "from server to server, EFA of the second generation",
    ),
    "hop_s|efa1": (
        90e-6,
        20e-6,
        200e-6,
        1,
        "s",
        "from server to server, EFA of the first generation",
    ),
    "bulk_s": (0.0, 0.0, 0.0, 0, "s", "beginning of large messages, over what a hop takes"),
    "bulk_s|efa1": (500e-6, 50e-6, 1500e-6, 1, "s", "the same, EFA of the first generation"),
    "ll_window_bytes": (300e3, 5e3, 2e6, 1, "bytes", "low-latency bytes in flight from a server"),
    "ll_window_bytes|efa": (40e3, 5e3, 2e6, 1, "bytes", "the same, EFA of the second generation"),
    "ll_ratio": (
        0.4,
        0.1,
        0.5,
        2,
        "ratio",
        "low-latency over bulk rate inside a server: at most half, flags take the rest",
    ),
    "ll_nic_ratio": (
        0.14,
        0.05,
        0.5,
        1,
        "ratio",
        "the same between servers, where a message is a word",
    ),
    "nic_ratio|rdma": (
        0.95,
        0.85,
        0.98,
        3,
        "ratio",
        "achieved over line rate of a NIC (NVIDIA: 46 to 48 of 50 GB/s)",
    ),
    "nic_ratio|tcpxo": (0.94, 0.8, 0.98, 1, "ratio", "the same, GPUDirect-TCPXO"),
    "nic_ratio|tcpx": (0.6, 0.4, 0.9, 1, "ratio", "the same, GPUDirect-TCPX"),
    "nic_ratio|efa": (0.93, 0.8, 0.97, 10, "ratio", "the same, EFA of the second generation"),
    "nic_ratio|efa1": (0.86, 0.7, 0.97, 1, "ratio", "the same, EFA of the first generation"),
    "ring_ratio": (
        0.81,
        0.7,
        0.9,
        3,
        "ratio",
        f"ring over NVLink line rate ({TUNER}: 20 to 20.6 of 25, 40.1 of 50)",
    ),
    "ring_ratio|unnamed": (
        0.82,
        0.7,
        0.95,
        1,
        "ratio",
        "the same, of the chip behind Alibaba's tables",
    ),
    "tree_ratio": (0.92, 0.8, 1.0, 3, "ratio", f"tree over ring ({TUNER}: 0.92)"),
    "nvls_ratio|hopper": (
        0.61,
        0.5,
        0.7,
        1,
        "ratio",
        "size over time of a sum in the switch, over NVLink line rate",
    ),
    "nvls_ratio|blackwell": (0.47, 0.4, 0.6, 1, "ratio", "the same"),
    "nvls_tree_ratio": (
        0.94,
        0.85,
        1.0,
        1,
        "ratio",
        "the same with servers in a tree, over one server",
    ),
    "exchange_ratio": (0.75, 0.6, 0.9, 1, "ratio", "all-to-all over NVLink line rate"),
    "fill_s": (
        28e-6,
        5e-6,
        100e-6,
        0.3,
        "s",
        "filling the pipeline of a server of eight chips: square root of this and the transfer",
    ),
    "fill_hops": (
        2.6,
        0.5,
        8.0,
        0.3,
        "ratio",
        "the same for the hops of the tree, over their latency",
    ),
    "fill_limit": (
        2.5,
        1.0,
        6.0,
        0.3,
        "ratio",
        "the most that filling takes, over the two above: chunks have a largest size",
    ),
}


def shipped() -> dict[str, float]:
    """The values in the data file, or the starts where it has none."""
    table = tomllib.loads(NCCL_PATH.read_text(encoding="utf-8")) if NCCL_PATH.exists() else {}
    return {
        name: float(table[name]["value"]) if name in table else row[0]
        for name, row in TABLE.items()
    }


def fit(items: Sequence[MeasuredCollective]) -> dict[str, float]:
    """Constants that fit the measurements; each is held towards its start."""
    free = [name for name, row in TABLE.items() if row[2] > row[1]]
    start = np.log([TABLE[name][0] for name in free])
    bounds = np.log([[TABLE[name][side] for name in free] for side in (1, 2)])
    strength = np.array([TABLE[name][3] for name in free])
    counts = collections.Counter(_family(item) for item in items)
    weight = np.array([1.0 / math.sqrt(max(counts[_family(item)], 20)) for item in items])
    weight *= math.sqrt(len(items)) / np.sqrt(
        np.sum(weight**2)
    )  # a long table counts no more than a short one
    time_s = np.array([item.time_s for item in items])

    def values(point: np.ndarray) -> dict[str, float]:
        return {
            **{name: row[0] for name, row in TABLE.items()},
            **dict(zip(free, np.exp(point).tolist(), strict=True)),
        }

    def residuals(point: np.ndarray) -> np.ndarray:
        ratio = np.log(np.array(predicted_s(items, NcclConstants(values=values(point)))) / time_s)
        robust = np.sign(ratio) * np.sqrt(
            2 * 0.08 * (np.sqrt(0.08**2 + ratio**2) - 0.08)
        )  # near |error| beyond 8 %
        return np.concatenate([weight * robust, np.sqrt(strength) * 0.1 * (point - start)])

    found = least_squares(
        residuals, np.clip(start, *bounds), bounds=bounds, diff_step=1e-3, max_nfev=60
    )
    return values(found.x)


def hold_out(items: Sequence[MeasuredCollective]) -> CollectiveScore:
    """Each system predicted by constants that were fitted without it; systems of one provider's table are one."""
    rows = []
    for name in dict.fromkeys(_family(item) for item in items):
        mine = [item for item in items if _family(item) == name]
        others = [item for item in items if _family(item) != name]
        rows += list(score_measured(mine, (), NcclConstants(values=fit(others))).rows)
    order = {id(item): place for place, item in enumerate(items)}
    return score_rows(tuple(sorted(rows, key=lambda row: order[id(row.measured)])), ())


def _family(item: MeasuredCollective) -> str:
    """Tables of one machine at one provider leave together."""
    return item.system.split("(")[0].split(" k8s")[0].split(" VM")[0].strip()


def _shared(score: CollectiveScore) -> list[ScoredRow]:
    """The rows whose network others have too, so that a fit without their system still knows it."""
    systems: dict[str, set[str]] = collections.defaultdict(set)
    for row in score.rows:
        systems[row.measured.cluster.technology].add(_family(row.measured))
    return [row for row in score.rows if len(systems[row.measured.cluster.technology]) > 1]


def write(values: dict[str, float], rows: int) -> None:
    """The data file."""
    lines = [
        "# Constants of the NCCL time model (simulate/collectives/timing.py), written by",
        "# `python bench/accuracy_collectives.py ROWS.csv --fit`; start, low, high: of the fit; value: its result.",
        f"# Fitted on {rows} published rows of nccl-tests and of Alibaba's SimAI tables; the rows name their sources.",
    ]
    for name, (start, low, high, _, unit, meaning) in TABLE.items():
        lines += ["", f'["{name}"]', f"value = {values[name]:.4g}", f"start = {start:.4g}"]
        lines += [f"low = {low:.4g}", f"high = {high:.4g}"] if high > low else []
        lines += [f'unit = "{unit}"', f'meaning = "{meaning}"']
    NCCL_PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show(title: str, score: CollectiveScore) -> None:
    """The table on the screen."""
    print(f"\n{title}\n{'':52}{'rows':>5}{'mean':>8}{'median':>8}{'p90':>8}{'bias':>8}")

    def line(name: str, errors: ErrorStats) -> None:
        cells = (errors.mean_abs_error, errors.median_abs_error, errors.p90_abs_error, errors.bias)
        print(
            f"{name[:51]:52}{errors.rows:5}"
            + "".join(f"{100 * (cell or 0.0):7.1f}%" for cell in cells)
        )

    line("all", score.overall)
    line("measured", score.measured)
    line("shares of a line rate", score.relative)
    line("of networks that more than one system has", row_errors(_shared(score)))
    for group in (*score.by_collective, *score.by_system):
        line(group.name, group.errors)
    print(
        f"{score.coarse_count} rows scored as a band, {len(score.refused)} rows without a usable number"
    )


def main() -> None:
    """Reads, scores, fits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--rows", dest="each", action="store_true", help="every row")
    asked = parser.parse_args()
    with open(asked.rows, encoding="utf-8", newline="") as file:
        measured, refused = read_measured(csv.DictReader(file))
    if asked.fit:
        write(fit(measured), len(measured))
    score = score_measured(measured, refused, NcclConstants(values=shipped()))
    show("shipped constants", score)
    if asked.each:
        for row in score.rows:
            item = row.measured
            print(
                f"{item.system[:28]:29}{item.cluster.ranks:5} {item.collective:11}{item.size_bytes:14.0f}"
                f"{item.time_s * 1e6:12.1f}{row.predicted_s * 1e6:12.1f} us {100 * row.error:7.1f}%"
            )
    if asked.hold_out:
        show("each system held out of the fit", hold_out(measured))


if __name__ == "__main__":
    main()
