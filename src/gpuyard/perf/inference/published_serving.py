"""Published serving runs: rows of the table as serving benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.perf.inference.benchmark_load import load_of
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import BenchmarkLoad, ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.chip import ServingChip, chip_named
from gpuyard.perf.inference.contradictions import contradicting_rows, with_prefix_cache_hits
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import kv_cache_capacity, limits, weight_bytes, with_graphs
from gpuyard.perf.inference.plausibility import max_tokens_per_s, min_tpot_s
from gpuyard.perf.inference.precision import FORMATS, Precision
from gpuyard.perf.inference.recipes import RecipeQuery, apply_recipe, as_generated, recipe_of
from gpuyard.perf.inference.run_columns import (
    Row,
    counted_in_chips,
    integer,
    layout_of,
    number,
    pools_of,
    precision_of,
    shape_of_row,
)
from gpuyard.perf.inference.serving_engine import ServingEngine, choose_engine, find_engine
from gpuyard.perf.inference.settings import apply_settings
from gpuyard.perf.inference.shape import DecoderShape
from gpuyard.perf.inference.submissions import Submission, submission_of

NEEDED = ("layers", "hidden", "heads", "vocab")
MEASURED = (
    "out_tok_s_total",
    "req_s",
    "ttft_ms_mean",
    "tpot_ms_mean",
    "itl_ms_mean",
    "e2e_ms_mean",
)
# Engine entry by date, newest first.
MLPERF_ROUNDS = (("2026", "trt-mlperf-6"), ("2025", "trt-mlperf-5"), ("", "trt-mlperf"))


def read_cases(rows: Iterable[Row], catalog: Catalog, trust: str = "AB") -> ServingBenchmarks:
    """Return the rows of these trust classes without duplicates."""
    cases: list[ServingBenchmark] = []
    unsupported: list[tuple[str, str]] = []
    for row in rows:
        if row["tier"] not in trust or row.get("dup_of"):
            continue
        try:
            for key in MEASURED:
                number(row, key)
            case = _case(row, catalog)
        except ValueError as error:
            case = f"invalid cell: {error}"
        if isinstance(case, str):
            unsupported.append((row["id"], case))
        else:
            cases.append(case)
    contradicting = contradicting_rows(cases)
    unsupported.extend(sorted(contradicting.items()))
    consistent = [case for case in cases if case.row["id"] not in contradicting]
    return ServingBenchmarks(
        cases=with_prefix_cache_hits(consistent), unsupported=tuple(unsupported)
    )


def _case(row: Row, catalog: Catalog) -> ServingBenchmark | str:
    """Return the row as model inputs, or the reason why it is not supported."""
    row = counted_in_chips(row)
    missing = [key for key in NEEDED if not row[key]]
    if missing:
        return "missing: " + ", ".join(missing)
    if reason := _unsupported_reason(row):
        return reason
    chip = chip_named(_chip_name(row), catalog)
    if chip is None:
        return f"unknown chip {row['chip']}"
    engine = engine_of(row)
    if engine is None:
        return f"unknown engine {row['engine']}"
    load = load_of(row)
    if isinstance(load, str):
        return load
    shape = shape_of_row(row)
    precision = precision_of(row, shape, chip)
    submitted = _submission(row, engine)
    if submitted.weights:
        precision = replace(precision, weights=submitted.weights)
    if not any(chip.peak_flop_per_s(peak) for peak in FORMATS[precision.weights].peaks):
        return f"{row['chip']} cannot multiply {precision.weights} weights"
    prefill = None
    if row["disagg"]:
        pools = pools_of(row)
        if pools is None:
            return "disaggregated: the number of replicas is not stated"
        prefill, decode = pools
        layouts: tuple[tuple[ReplicaLayout, int], ...] = (decode,)
    else:
        engine, load = submitted.apply(engine), _submission_load(row, load, submitted)
        stated = layout_of(row) or _submission_layout(row, submitted)
        layouts = (stated,) if stated else _candidate_layouts(row, shape)
    if not layouts:
        return "missing: layout"
    if all(
        weight_bytes(shape, precision, layout) > 0.99 * chip.memory_bytes for layout, _ in layouts
    ):
        return "the weights exceed the memory of the stated chips"
    if prefill is None and _too_fast(row, shape, chip, precision, load, layouts[0]):
        return "faster than the memory bandwidth of the stated chips"
    if load.kind == "closed" and "InferenceX" in row["notes"] and prefill is None:
        engine, precision, load = _with_recipe(row, engine, precision, load, layouts[0][0])
    elif load.kind == "closed" and _generated(row) and prefill is None:
        engine = as_generated(engine, load.prompt_tokens, load.users)
    if slot := re.search(r"cache (\d+)", row["len_note"]):
        engine = replace(engine, slot_tokens=int(slot.group(1)))
    case = ServingBenchmark(
        row=row,
        shape=shape,
        chip=chip,
        precision=precision,
        engine=engine,
        layouts=layouts,
        prefill=prefill,
        load=load,
    )
    return _with_release_settings(case) if load.kind == "offline" else case


def _with_release_settings(case: ServingBenchmark) -> ServingBenchmark:
    """Return an offline run with its release's batch size, token budget and CUDA graphs."""
    load, layout = case.load, case.layouts[0][0]
    total = int(load.prompt_tokens + load.output_tokens)
    engine = apply_settings(
        case.engine, case.row["engine_ver"], case.row["model"], layout.tp, total
    )
    if not engine.pads:
        return replace(case, engine=engine)
    kv_cache = kv_cache_capacity(
        case.shape, case.chip, case.precision, layout, engine, read_calibration()
    )
    step_limits = limits(engine, kv_cache, load.prompt_tokens, load.output_tokens, layout.pp)
    return replace(case, engine=with_graphs(engine, step_limits, layout.pp))


def _too_fast(
    row: Row,
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    load: BenchmarkLoad,
    layout: tuple[ReplicaLayout, int],
) -> bool:
    """Return whether a measurement exceeds the memory bandwidth of the stated chips."""
    chips, stated = layout[0].chips * layout[1], bool(row["kv_prec"])
    context = 0.5 * (1.0 + load.low_ratio) * (load.prompt_tokens + 0.5 * load.output_tokens)
    if load.kind in ("static", "offline"):
        limit_per_s = max_tokens_per_s(
            shape, chip, precision, stated, max(chips, integer(row, "n_chips")), context
        )
        if load.slots and load.kind == "static":
            step_s = min_tpot_s(
                shape, chip, precision, stated, layout[0].chips, load.slots / layout[1], context
            )
            limit_per_s = min(limit_per_s, load.slots / step_s) if step_s else limit_per_s
        return number(row, "out_tok_s_total", 0.0) > limit_per_s
    if load.kind != "closed":
        return False
    limit_s = min_tpot_s(
        shape, chip, precision, stated, layout[0].chips, load.users / layout[1], context
    )
    return number(row, "tpot_ms_mean", float("inf")) / 1e3 < limit_s


def _with_recipe(
    row: Row,
    engine: ServingEngine,
    precision: Precision,
    load: BenchmarkLoad,
    layout: ReplicaLayout,
) -> tuple[ServingEngine, Precision, BenchmarkLoad]:
    """Return a closed-loop run with the settings of its public recipe."""
    run = RecipeQuery(
        engine=row["engine"],
        model=row["model"],
        chip=row["chip"],
        weights=row["weights_prec"],
        date=row["date"],
        layout=layout,
        prompt_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        users=load.users,
    )
    recipe = recipe_of(run)
    if recipe is None:
        return engine, precision, load
    return (
        apply_recipe(engine, recipe, run),
        replace(precision, kv=recipe.kv or precision.kv) if not row["kv_prec"] else precision,
        replace(load, wait_steps=recipe.wait_steps or 0.0),
    )


def _unsupported_reason(row: Row) -> str:
    """Return why a run is not modelled; empty where it is."""
    # Throughput of two is below that of one, and a fifth to a tenth of that of four.
    if _slow_superchip(row) and row["tp"] == "2":
        return "the link between the two superchips is not stated"
    if row["engine"].startswith("JetStream") and number(row, "dp", 1.0) > 1.0:
        return "data-parallel ranks that wait for the prefill of all others"
    if (
        row["moe"]
        and row["scenario"].startswith("static")
        and row["engine"].startswith("TensorRT-LLM")
    ):
        return "identical sequences of a static batch route to the same experts"
    if "beam search" in row["notes"] and not _trt_submission(row).beams:
        return "beam search with unknown kernels"
    interactive = row["scenario"] == "MLPerf Interactive" and row["model"].startswith("DeepSeek")
    if "MTP speculative" in row["notes"] or interactive:
        return "speculative decoding"  # mlcommons.org/2026/03/mlperf-inference-gpt-oss
    if row["chip"].startswith("mixed "):
        return f"one throughput for several chip types ({row['chip']})"
    return "power cap without a value" if "MaxQ" in row["notes"] else ""


def _slow_superchip(row: Row) -> bool:
    """Return whether a run used the slower GH200 of TensorRT-LLM 0.12 and 0.13."""
    return row["chip"].startswith("GH200") and row["engine_ver"] in ("0.12.0", "0.13.0")


def _chip_name(row: Row) -> str:
    """Return the row's chip name; " capped" marks a slower variant of the same name."""
    return row["chip"] + (" capped" if _slow_superchip(row) else "")


def engine_of(row: Row) -> ServingEngine | None:
    """Return the engine of a run, by version or else by date."""
    if row["scenario"].startswith("MLPerf"):
        return find_engine(_mlperf_engine(row))
    version = row["engine_ver"]
    if (
        row["engine"] == "TensorRT-LLM"
        and row["date"] >= "2025-06"
        and not re.match(r"0\.(19|2)|1\.", version)
    ):
        version = "1."  # container versions, or none
    if not version and row["date"] >= "2025":
        version = "1."
    if (
        version.startswith("1.")
        and row["engine"] == "TensorRT-LLM"
        and row["scenario"] == "fixed concurrency"
    ):
        return find_engine(
            "trt-serve-rc" if row["engine_ver"].startswith("1.0.0rc") else "trt-serve"
        )
    return choose_engine(row["engine"], version)


def _mlperf_engine(row: Row) -> str:
    """Return the engine of an MLPerf round; DeepSeek-R1 ran on the PyTorch backend in 5.1."""
    words = f"{row['engine']} {row['engine_ver']}"
    if "vLLM" in words or "ROCm" in words or row["chip"].startswith("MI3"):
        return "vllm-async" if row["date"] >= "2026" else "vllm-v1"  # AMD's submissions run vLLM
    if row["engine"].startswith("CUDA"):
        return "vllm-v0"  # Red Hat, round 4.1 (closed/RedHat/code)
    if "TensorRT 9" in row["engine_ver"]:
        return "trt-mlperf-4"
    engine = next(name for since, name in MLPERF_ROUNDS if row["date"] >= since)
    pytorch = engine == "trt-mlperf-5" and row["model"].startswith("DeepSeek")
    return f"{engine}-torch" if pytorch else engine


def _submission(row: Row, engine: ServingEngine) -> Submission:
    """Return the settings of an MLPerf submission; blank for other runs."""
    return _trt_submission(row) if engine.name.startswith("trt-mlperf") else Submission()


def _trt_submission(row: Row) -> Submission:
    """Return the settings of matching TensorRT-LLM submissions."""
    return submission_of(row.get("source_ver", ""), row["model"], row["chip"], row["scenario"])


def _submission_load(row: Row, load: BenchmarkLoad, submitted: Submission) -> BenchmarkLoad:
    """Return the load with the requests, duration and waits of the submission."""
    min_requests = (submitted.chip_requests or 0) * integer(row, "n_chips")
    return replace(
        load,
        requests=max(load.requests, min_requests),
        run_s=max(load.run_s, submitted.run_s or 0.0),
        wait_steps=submitted.wait_steps or 0.0,
        transfers=bool(submitted.transfers),
    )


def _submission_layout(row: Row, submitted: Submission) -> tuple[ReplicaLayout, int] | None:
    """Return the submission's layout and replicas, where its chips divide the row's."""
    layout, chips = submitted.layout, integer(row, "n_chips")
    return (layout, chips // layout.chips) if layout and chips % layout.chips == 0 else None


def _candidate_layouts(row: Row, shape: DecoderShape) -> tuple[tuple[ReplicaLayout, int], ...]:
    """Return candidate layouts of a run that states none; the fastest that fits is used."""
    if not row["n_chips"]:
        return ()
    chips, layouts = int(row["n_chips"]), []
    for ranks in (1, 2, 4, 8, 16):
        if chips % ranks == 0 or ranks == 1:
            layouts.append((ReplicaLayout(tp=ranks), max(1, chips // ranks)))
            if ranks > 1 and shape.experts:
                layouts.append((ReplicaLayout(tp=1, ep=ranks, attention_dp=ranks), chips // ranks))
            if ranks == 2 and shape.parameters > 2e11 and chips % 16 == 0:
                layouts.append((ReplicaLayout(tp=8, pp=2), chips // 16))
    return tuple(layouts)


def _generated(row: Row) -> bool:
    """Return whether AIConfigurator generated the settings: all requests have one length."""
    return "aiconfigurator" in row.get("source", "") and "InferenceX" not in row["notes"]
