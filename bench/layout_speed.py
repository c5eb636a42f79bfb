"""Layouts per second of the planner on one core: `python bench/layout_speed.py`.

Searches GPT-3 175B on A100s as Calculon does (SC23, github.com/calculon-ai/calculon): every valid layout, its memory
and, where it fits, its step time. Calculon's rates were measured on one core with Python 3.11 (commit caa4b11): 81 to
167 executions a CPU second as shipped, 515 to 936 with its logging silenced; 81 and 515 are those of a complete search
of the first case below, 138,624 executions. One execution and one layout both are the time and memory of one
configuration, but the two tools do not have the same options, so the counts differ: the searches "with switches" cross
every layout with optimizer and activation offload and with what the software may do (overlap of tensor, data and
pipeline communication, fused kernels, fused attention), which makes them as large as Calculon's.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from functools import partial

import numpy as np

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.models import Transformer
from gpuyard.perf.calibration import read_calibration, scalar
from gpuyard.perf.chip_kernels import calibrated, silicon_of, training_chip
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.layout import Layout
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.software import software
from gpuyard.perf.training import step_time
from gpuyard.plan.evaluate import CHUNK, LayoutEvaluation, TrainingCase, evaluate, layout_of
from gpuyard.plan.layouts import LayoutTable, Space, parallel_layouts

DOMAIN, NIC_BYTES_PER_S, SEQUENCE_TOKENS, REPEATS = 8, 25e9, 2048, 3
CALCULON = (("as shipped", 81.0, 167.0), ("logging silenced", 515.0, 936.0))
WIDEST = Space(
    tp=tuple(range(1, 65)),
    pp=tuple(range(1, 97)),
    cp=tuple(range(1, 65)),
    micro_batch=tuple(range(1, 1537)),
    virtual_stages=tuple(range(1, 97)),
)
WITH_OFFLOAD = replace(WIDEST, offload=(0, 1, 2))
SWITCHES = ("tp_overlap", "dp_overlap", "p2p_overlap", "fused", "flash", "graphs", "dist_opt")


def gpt3() -> tuple[Transformer, TrainingCase]:
    """GPT-3 175B on an A100 of 80 GB, eight to a machine with eight ports of 200 Gb/s."""
    catalog, calibration = load_catalog(), read_calibration()
    shape = next(model for model in catalog.models if model.name == "gpt-3-175b").transformer
    chip = catalog.chip("a100-80gb")
    silicon, profile = silicon_of(chip), find_profile("megatron-2022")
    assert shape
    assert silicon
    bare = training_chip(silicon, chip, "bf16", DOMAIN, NIC_BYTES_PER_S)
    return shape, TrainingCase(
        arch=architecture(shape, SEQUENCE_TOKENS, False),
        chip=calibrated(bare, silicon, "bf16", calibration),
        soft=software(profile, scalar(calibration, profile, False), nvl72=False),
        constants=calibration.constants,
    )


def timed(run: Callable[[], int], at_least_s: float = 0.5) -> tuple[int, float]:
    """How many layouts one run is, and its CPU seconds: best of a few, short runs repeated."""
    best_s, count = math.inf, 0
    for _ in range(REPEATS):
        runs, start_s = 0, time.process_time()
        while (spent_s := time.process_time() - start_s) < at_least_s or not runs:
            count, runs = run(), runs + 1
        best_s = min(best_s, spent_s / runs)
    return count, best_s


def show(what: str, count: int, cpu_s: float, note: str = "") -> None:
    """One line, with how many times Calculon's rates it is."""
    rate = count / cpu_s
    times = "; ".join(
        f"{rate / high:,.0f} to {rate / low:,.0f} x Calculon {word}" for word, low, high in CALCULON
    )
    print(f"{what}: {count:,} layouts in {cpu_s:.4f} CPU s, {rate:,.0f} a second ({times}){note}")


def search(
    shape: Transformer, case: TrainingCase, batch: int, chips: tuple[int, ...]
) -> LayoutEvaluation:
    """Every layout listed, weighed, and timed where it fits."""
    return evaluate(case, parallel_layouts(shape, SEQUENCE_TOKENS, batch, chips, DOMAIN, WIDEST))


def tried(shape: Transformer, case: TrainingCase, batch: int, chips: tuple[int, ...]) -> int:
    """How many layouts such a search tries."""
    return search(shape, case, batch, chips).tried_count


def switched(case: TrainingCase, count: int) -> list[TrainingCase]:
    """The case under every setting of the first few switches."""
    found = []
    for settings in itertools.product((0.0, 1.0), repeat=count):
        values = {name: np.asarray(value) for name, value in zip(SWITCHES, settings, strict=False)}
        found.append(replace(case, soft=replace(case.soft, **values)))
    return found


def fastest(found: LayoutTable, case: TrainingCase) -> tuple[int, float]:
    """How many layouts were tried, and the fastest step of those that fit."""
    result = evaluate(case, found)
    return result.tried_count, float(result.step_s.min(initial=math.inf))


def search_switched(
    shape: Transformer,
    case: TrainingCase,
    batch: int,
    chips: tuple[int, ...],
    switches: int,
    cores: int,
) -> None:
    """Every layout under every switch, spread over processes; prints the wall time."""
    start_s = time.perf_counter()
    found = parallel_layouts(shape, SEQUENCE_TOKENS, batch, chips, DOMAIN, WITH_OFFLOAD)
    cases = switched(case, switches)
    if cores == 1:
        results = [fastest(found, one) for one in cases]
    else:
        with ProcessPoolExecutor(cores) as pool:
            results = list(pool.map(partial(fastest, found), cases, chunksize=4))
    spent_s = time.perf_counter() - start_s
    count = sum(tried for tried, _ in results)
    best_s = min(step_s for _, step_s in results)
    sizes = f"{min(chips)}" if len(chips) == 1 else f"{min(chips)} to {max(chips):,}"
    print(
        f"{sizes} A100, batch {batch:,}, with switches: {count:,} executions in {spent_s:.2f} s of wall time on "
        f"{cores} core(s), {count / spent_s:,.0f} a second; the fastest step takes {best_s:.2f} s"
    )


def flat(case: TrainingCase, found: LayoutTable) -> int:
    """The step time alone of layouts in columns."""
    for start in range(0, len(found), CHUNK):
        part = found.take(np.arange(start, min(start + CHUNK, len(found))))
        step_time(case.arch, layout_of(part, float(DOMAIN)), case.chip, case.soft, case.constants)
    return len(found)


def grid(case: TrainingCase) -> int:
    """The step time alone of a grid: every combination, each term evaluated on the axes that it depends on."""
    axes = {
        "vpp": (1, 2, 3, 4, 6, 12),
        "recompute_attention": (0, 1),
        "recompute_gemm": (0, 0.5, 1),
        "grad_accum": (1, 2, 4, 8, 16, 32, 64, 128),
        "dp": (1, 2, 4, 8, 16, 32, 64, 128),
        "pp": (1, 2, 3, 4, 6, 8, 12, 16),
        "micro_batch": (1, 2, 4, 8, 16),
        "tp": (1, 2, 3, 4, 6, 8, 12, 16),
    }
    values = {
        name: np.array(numbers, dtype=np.float64).reshape(
            [-1 if i == j else 1 for j in range(len(axes))]
        )
        for i, (name, numbers) in enumerate(axes.items())
    }
    ones = ("cp", "ep", "etp", "seq_parallel")
    plain = Layout(
        **{field.name: np.full((), float(field.name in ones)) for field in fields(Layout)}
    )
    chips = values["tp"] * values["pp"] * values["dp"]
    layout = replace(plain, **values, chips=chips, shard_ranks=values["dp"])
    total = step_time(case.arch, layout, case.chip, case.soft, case.constants).total_s
    return int(np.size(total))


def main() -> None:
    """Prints counts, seconds, layouts a second and the ratio to Calculon's rates."""
    shape, case = gpt3()
    small, large = (64,), tuple(64 * 2**power for power in range(7))
    for what, batch, chips in (
        ("64 A100, batch 64", 64, small),
        ("64 to 4,096 A100, batch 1,536", 1536, large),
    ):
        found = search(shape, case, batch, chips)
        note = f"; {len(found.ways):,} fit, the fastest step takes {found.step_s.min():.2f} s"
        show(what, *timed(partial(tried, shape, case, batch, chips)), note)
    search_switched(shape, case, 64, small, switches=5, cores=1)
    search_switched(shape, case, 1536, large, switches=7, cores=2)
    every = parallel_layouts(shape, SEQUENCE_TOKENS, 1536, large, DOMAIN, WIDEST)
    show("step time alone, layouts in columns", *timed(lambda: flat(case, every)))
    show("step time alone, a grid", *timed(lambda: grid(case)))


if __name__ == "__main__":
    main()
