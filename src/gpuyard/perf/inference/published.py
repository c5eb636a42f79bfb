"""Published serving runs: one row of the table as everything that a prediction of it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gpuyard.catalog import Catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import Case, Cases, Ceiling, Load
from gpuyard.perf.inference.cells import Row, layout_of, number, pools_of, precision_of, shape_of_row, whole
from gpuyard.perf.inference.chip import ServingChip, chip_named
from gpuyard.perf.inference.engine import Engine, choose_engine, find_engine
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import limits, room, weight_bytes, with_graphs
from gpuyard.perf.inference.precision import FORMATS, Precision
from gpuyard.perf.inference.recipes import Run, apply_recipe, as_generated, recipe_of
from gpuyard.perf.inference.screen import least_token_s, most_tokens_per_s
from gpuyard.perf.inference.series import doubtful, with_hits
from gpuyard.perf.inference.settings import apply_settings
from gpuyard.perf.inference.shape import Shape
from gpuyard.perf.inference.submissions import Submission, submission_of

__all__ = ["output_tokens_per_s", "read_cases"]

DRIFT_TOKENS = 2  # of outputs in closed loops of one length: clients come back a step or two apart
SHARED_RATIO = 0.9  # of prompts in the cache, where clients choose among few: 45 prompts of 500 requests are new
TOO_LITTLE = ("layers", "hidden", "heads", "vocab")
MLPERF_ROUNDS = (("2026", "trt-mlperf-6"), ("2025", "trt-mlperf-5"), ("", "trt-mlperf"))  # by date, newest first
# requests of TensorRT-LLM's offline tables by input and output length, as perf-overview.md of 0.15 and later lists; it
# leaves out 1024 and 2048, which it measures beside 1000 and 2000
OFFLINE_REQUESTS = {
    (128, 128): 30000, (20000, 2000): 1000, (5000, 500): 1500, (2048, 2048): 1500, (128, 4096): 1500,
    (1000, 2000): 1500, (1024, 2048): 1500,
}  # fmt: skip


def read_cases(rows: Iterable[Row], catalog: Catalog, trust: str = "AB") -> Cases:
    """The rows of that trust; exact repeats of other rows are left out."""
    cases: list[Case] = []
    refused: list[tuple[str, str]] = []
    for row in rows:
        if row["tier"] not in trust or row.get("dup_of"):
            continue
        try:
            case = _case(row, catalog)
        except ValueError as error:
            case = f"a cell cannot be read: {error}"
        if isinstance(case, str):
            refused.append((row["id"], case))
        else:
            cases.append(case)
    doubted = doubtful(cases)
    refused.extend(sorted(doubted.items()))
    kept = with_hits([case for case in cases if case.row["id"] not in doubted])
    return Cases(cases=kept, unsupported=tuple(refused))


def _case(row: Row, catalog: Catalog) -> Case | str:
    """The row as values, or why it cannot be."""
    missing = [key for key in TOO_LITTLE if not row[key]]
    if missing:
        return "missing: " + ", ".join(missing)
    chip = chip_named(_chip_words(row), catalog)
    if chip is None:
        return f"no facts for chip {row['chip']}"
    if why := _otherwise(row):
        return why
    engine = engine_of(row)
    if engine is None:
        return f"no engine for {row['engine']}"
    load = load_of(row)
    if isinstance(load, str):
        return load
    shape = shape_of_row(row)
    precision = precision_of(row, shape, chip)
    submitted = _submission(row, engine)
    if submitted.weights:
        precision = replace(precision, weights=submitted.weights)
    if not any(chip.peak_flop_per_s(peak) for peak in FORMATS[precision.weights].peaks):
        return f"{row['chip']} has no cores for {precision.weights}"
    prefill = None
    if row["disagg"]:
        pools = pools_of(row)
        if pools is None:
            return "disaggregated: how many replicas is not stated"
        prefill, decode = pools
        layouts: tuple[tuple[ReplicaLayout, int], ...] = (decode,)
    else:
        engine, load = submitted.apply(engine), _as_long(row, load, submitted)
        stated = layout_of(row) or _arranged(row, submitted)
        layouts = (stated,) if stated else _choices(row, shape)
    if not layouts:
        return "missing: layout"
    if all(weight_bytes(shape, precision, layout) > 0.99 * chip.memory_bytes for layout, _ in layouts):
        return "the weights are larger than the memory of the stated chips"
    if prefill is None and _too_fast(row, shape, chip, precision, load, layouts[0]):
        return "faster than the memory of the stated chips can be read"
    if load.kind == "closed" and "InferenceX" in row["notes"] and prefill is None:
        engine, precision, load = _as_recipe(row, engine, precision, load, layouts[0][0])
    elif load.kind == "closed" and _generated(row) and prefill is None:
        engine = as_generated(engine, load.prompt_tokens, load.users)
    if slot := re.search(r"cache (\d+)", row["len_note"]):
        engine = replace(engine, slot_tokens=int(slot.group(1)))
    case = Case(
        row=row, shape=shape, chip=chip, precision=precision, engine=engine, layouts=layouts, prefill=prefill, load=load
    )
    return _as_set_up(case) if load.kind == "offline" else case


def _as_set_up(case: Case) -> Case:
    """An offline run with the batch, budget and graphs that its release gave it."""
    load, layout = case.load, case.layouts[0][0]
    total = int(load.prompt_tokens + load.output_tokens)
    engine = apply_settings(case.engine, case.row["engine_ver"], case.row["model"], layout.tp, total)
    if not engine.pads:
        return replace(case, engine=engine)
    held = room(case.shape, case.chip, case.precision, layout, engine, read_calibration())
    allowed = limits(engine, held, load.prompt_tokens, load.output_tokens, layout.pp)
    return replace(case, engine=with_graphs(engine, allowed, layout.pp))


def _too_fast(
    row: Row, shape: Shape, chip: ServingChip, precision: Precision, load: Load, layout: tuple[ReplicaLayout, int]
) -> bool:
    """Whether the measurement beats the bandwidth of the chips, whatever the engine: it is not of what the row says."""
    chips, stated = layout[0].chips * layout[1], bool(row["kv_prec"])
    context = 0.5 * (1.0 + load.low_ratio) * (load.prompt_tokens + 0.5 * load.output_tokens)
    if load.kind in ("static", "offline"):
        most = most_tokens_per_s(shape, chip, precision, stated, max(chips, whole(row, "n_chips")), context)
        if load.slots and load.kind == "static":
            step_s = least_token_s(shape, chip, precision, stated, layout[0].chips, load.slots / layout[1], context)
            most = min(most, load.slots / step_s) if step_s else most
        return number(row, "out_tok_s_total", 0.0) > most
    if load.kind != "closed":
        return False
    least = least_token_s(shape, chip, precision, stated, layout[0].chips, load.users / layout[1], context)
    return number(row, "tpot_ms_mean", float("inf")) / 1e3 < least


def _as_recipe(
    row: Row, engine: Engine, precision: Precision, load: Load, layout: ReplicaLayout
) -> tuple[Engine, Precision, Load]:
    """A closed-loop run as its public recipe started it."""
    run = Run(
        engine=row["engine"], model=row["model"], chip=row["chip"], weights=row["weights_prec"], date=row["date"],
        layout=layout, prompt_tokens=load.prompt_tokens, output_tokens=load.output_tokens, users=load.users,
    )  # fmt: skip
    recipe = recipe_of(run)
    if recipe is None:
        return engine, precision, load
    return (
        apply_recipe(engine, recipe, run),
        replace(precision, kv=recipe.kv or precision.kv) if not row["kv_prec"] else precision,
        replace(load, wait_steps=recipe.wait_steps or 0.0),
    )


def _otherwise(row: Row) -> str:
    """Why a run was made in a way that is not modelled; empty where it was not."""
    if _slow_superchip(row) and row["tp"] == "2":  # slower than one, and a fifth to a tenth of four
        return "how the two superchips were joined is not stated"
    if row["engine"].startswith("JetStream") and number(row, "dp", 1.0) > 1.0:
        return "ranks that share out a batch wait for each prompt of the others"
    if row["moe"] and row["scenario"].startswith("static") and row["engine"].startswith("TensorRT-LLM"):
        return "sequences of one static batch are alike, and so are the experts that they choose"
    if "beam search" in row["notes"] and not _set_up(row).beams:
        return "beam search whose kernels are not known"
    if "MTP speculative" in row["notes"]:
        return "speculative decoding"
    return "its power was capped, at how many watts is not stated" if "MaxQ" in row["notes"] else ""


def _slow_superchip(row: Row) -> bool:
    """TensorRT-LLM 0.12 and 0.13 ran on superchips that were slower, at arithmetic too, than those before and after."""
    return row["chip"].startswith("GH200") and row["engine_ver"] in ("0.12.0", "0.13.0")


def _chip_words(row: Row) -> str:
    """What the row calls its chip, and whether that was slower than others of its name."""
    return row["chip"] + (" capped" if _slow_superchip(row) else "")


def engine_of(row: Row) -> Engine | None:
    """The engine and era; a run without a version is of its date."""
    if row["scenario"].startswith("MLPerf"):
        return find_engine(_mlperf_engine(row))
    version = row["engine_ver"]
    if row["engine"] == "TensorRT-LLM" and row["date"] >= "2025-06" and not re.match(r"0\.(19|2)|1\.", version):
        version = "1."  # versions of a container, or none
    if not version and row["date"] >= "2025":
        version = "1."
    if version.startswith("1.") and row["engine"] == "TensorRT-LLM" and row["scenario"] == "fixed concurrency":
        return find_engine("trt-serve-rc" if row["engine_ver"].startswith("1.0.0rc") else "trt-serve")
    return choose_engine(row["engine"], version)


def _mlperf_engine(row: Row) -> str:
    """The engine of a round of MLPerf; DeepSeek-R1 was first run by the PyTorch backend, in round 5.1."""
    if "vLLM" in row["engine"]:
        return "vllm-v1"
    if row["engine"].startswith("CUDA"):
        return "vllm-v0"  # RedHat's of round 4.1 (closed/RedHat/code), which names no engine
    if "TensorRT 9" in row["engine_ver"]:
        return "trt-mlperf-4"
    era = next(name for since, name in MLPERF_ROUNDS if row["date"] >= since)
    return f"{era}-torch" if era == "trt-mlperf-5" and row["model"].startswith("DeepSeek") else era


def _submission(row: Row, engine: Engine) -> Submission:
    """How a run of MLPerf was submitted; nothing of other runs."""
    return _set_up(row) if engine.name.startswith("trt-mlperf") else Submission()


def _set_up(row: Row) -> Submission:
    """What TensorRT-LLM's submissions of the row's kind set."""
    return submission_of(row.get("source_ver", ""), row["model"], row["chip"], row["scenario"])


def _as_long(row: Row, load: Load, submitted: Submission) -> Load:
    """The load with the requests and the time of the submission."""
    asked = (submitted.chip_requests or 0) * whole(row, "n_chips")
    return replace(load, requests=max(load.requests, asked), run_s=max(load.run_s, submitted.run_s or 0.0))


def _arranged(row: Row, submitted: Submission) -> tuple[ReplicaLayout, int] | None:
    """The submission's layout and replicas, where its chips divide the row's."""
    layout, chips = submitted.layout, whole(row, "n_chips")
    return (layout, chips // layout.chips) if layout and chips % layout.chips == 0 else None


def _choices(row: Row, shape: Shape) -> tuple[tuple[ReplicaLayout, int], ...]:
    """Layouts that a run over so many chips may have used; the fastest that fits is taken."""
    if not row["n_chips"]:
        return ()
    chips, found = int(row["n_chips"]), []
    for ranks in (1, 2, 4, 8, 16):
        if chips % ranks == 0 or ranks == 1:
            found.append((ReplicaLayout(tp=ranks), max(1, chips // ranks)))
            if ranks > 1 and shape.experts:
                found.append((ReplicaLayout(tp=1, ep=ranks, attention_dp=ranks), chips // ranks))
            if ranks == 2 and shape.parameters > 2e11 and chips % 16 == 0:
                found.append((ReplicaLayout(tp=8, pp=2), chips // 16))
    return tuple(found)


def load_of(row: Row) -> Load | str:
    """What clients did, or why it is not known."""
    scenario, note = row["scenario"], row["len_note"]
    output = number(row, "output_len")
    if scenario.startswith("MLPerf") and "8B" in row["model"]:
        output = FULL_TOKENS
    prompt = number(row, "input_len", 32.0 if "short prompt" in note else float("nan"))
    if _summarises(row):
        prompt, output = SUMMARY_TOKENS
    if "ShareGPT, 2000 prompts" in note:
        prompt, output = 220.0, 200.0  # as the runs of this benchmark that state their totals
    if prompt != prompt or output != output:
        return "missing: lengths"
    if scenario.startswith("MLPerf"):
        return _mlperf(row, prompt, output)
    if scenario.startswith("static"):
        batch = int(number(row, "batch"))
        return Load(kind="static", requests=batch, prompt_tokens=prompt, output_tokens=output, slots=batch)
    count = int(number(row, "n_requests", 0.0) or 0)
    if scenario.startswith("offline"):
        return _offline(row, prompt, output, count)
    if scenario == "fixed concurrency":
        users = int(number(row, "concurrency"))
        if row["batch"] and row["dp"] in ("", "0", "1") and not row["disagg"]:
            users = int(number(row, "batch"))  # of one replica, where concurrency counts others that no column has
        low = 0.8 if "0.8" in note else 1.0
        return Load(
            kind="closed", requests=count or 10 * users, prompt_tokens=prompt, output_tokens=output, users=users,
            low_ratio=low, variation=(0.0, 0.5 if "no ignore_eos" in note else 0.0), drift_tokens=DRIFT_TOKENS,
            polls="InferenceX" in row["notes"],  # its recipes set the intervals of polling and streaming
        )  # fmt: skip
    return _open(row, prompt, output, count)


def _generated(row: Row) -> bool:
    """Whether AIConfigurator set the run up and made its requests: all of one length, outputs too (genai-perf)."""
    return "aiconfigurator" in row.get("source", "") and "InferenceX" not in row["notes"]


def _offline(row: Row, prompt: float, output: float, count: int) -> Load:
    """Every request there at the start."""
    usual = OFFLINE_REQUESTS.get((int(prompt), int(output)), 1000 if prompt + output > 20000 else 3000)
    slots = int(number(row, "batch", 0.0) or 0) if row["engine"].startswith("JetStream") else 0
    spread = (0.8, 0.8) if "ShareGPT" in row["len_note"] else (0.0, 0.0)
    return Load(
        kind="offline", requests=count or usual, prompt_tokens=prompt, output_tokens=output, slots=slots,
        users=int(number(row, "concurrency", 0.0) or 0), variation=spread,
        most_tokens=(1024.0, 1024.0) if slots else (1e9, 1e9),
    )  # fmt: skip


def _open(row: Row, prompt: float, output: float, count: int) -> Load | str:
    """Requests at a rate, or in one burst."""
    burst = "inf" in row["scenario"]
    rate = 0.0 if burst else number(row, "qps")
    if rate != rate:
        return "missing: rate"
    limits = re.search(r"max_num_seqs (\d+), max_num_batched_tokens (\d+)", row["notes"])
    return Load(
        kind="open",
        requests=count or 500,
        prompt_tokens=prompt,
        output_tokens=output,
        rate_per_s=rate,
        variation=(0.0, 0.0) if "means of a dataset" in row["len_note"] else (0.3, 0.5),
        hit_ratio=SHARED_RATIO if "shared-prefix" in row["len_note"] else 0.0,
        slots=int(limits.group(1)) if limits else 0,
        budget_tokens=int(limits.group(2)) if limits else 0,
    )


def output_tokens_per_s(row: Row) -> float:
    """The measured throughput; of a benchmark that counts requests, by the mean length of its outputs."""
    return SUMMARY_TOKENS[1] * number(row, "req_s") if _summarises(row) else number(row, "out_tok_s_total")


def _summarises(row: Row) -> bool:
    """Whether a run is of MLPerf's summaries by GPT-J, whose rows count requests alone."""
    return row["scenario"].startswith("MLPerf") and row["model"].startswith("GPT-J")


MLPERF_S = 600.0  # min_duration of mlperf.conf: samples are asked for again until it is over
# Spread of lengths of the MLPerf datasets (OpenOrca, its mix with GSM8K and MBXP, LongBench, CNN-DailyMail, reasoning
# problems), of outputs as the percentiles of latency in mlperf_log_summary.txt show it (rounds 4.1 and 5.1, NVIDIA);
# the longest prompt and output; samples (performance_sample_count of its mlperf.conf), all asked for equally often.
MLPERF = (
    ("Llama-2-70B", (0.75, 0.6), (1024.0, 1024.0), 24576),
    ("Mixtral", (0.9, 0.8), (2048.0, 1024.0), 15000),
    ("405B", (0.6, 0.3), (20000.0, 2000.0), 8313),
    ("8B", (0.45, 0.0), (2540.0, 128.0), 13368),
    ("DeepSeek", (1.0, 1.5), (4096.0, 20000.0), 4388),
    ("GPT-J", (0.45, 0.35), (1919.0, 128.0), 13368),
)
# Tokens of prompts and outputs of GPT-J, whose rows state none: the articles are those of Llama 3.1 8B, and LoadGen
# infers 69 tokens a sample (tokens a second over samples a second of mlperf_log_summary.txt, round 4.1).
SUMMARY_TOKENS = (870.73, 69.0)
SUMMARY_S = 20.0  # target_latency of gptj.Server in mlperf.conf, of the whole request
FULL_TOKENS = 128.0  # of the outputs of Llama 3.1 8B: tokens a second over samples a second of those logs


def _mlperf(row: Row, prompt: float, output: float) -> Load | str:
    """The benchmark's dataset; a server has limits on its 99th percentiles."""
    found = next((cells for cells in MLPERF if cells[0] in row["model"]), None)
    if found is None:
        return "lengths of this MLPerf benchmark are not known"
    server = row["scenario"] != "MLPerf Offline"
    ceiling = _ceiling(row)
    if server and ceiling == Ceiling():
        return "missing: limits of the server scenario"
    return Load(
        kind="mlperf-server" if server else "mlperf-offline", requests=found[3], prompt_tokens=prompt,
        output_tokens=round(output),
        variation=found[1], most_tokens=found[2], run_s=MLPERF_S, ceiling=ceiling,
    )  # fmt: skip


def _ceiling(row: Row) -> Ceiling:
    """What the benchmark lets 99 % of a server's requests take."""
    if _summarises(row):
        return Ceiling(e2e_s=SUMMARY_S)
    pattern = r"Server: (?:p99 )?TTFT<=(\d+)ms,? TPOT<=(\d+)ms"
    if row["scenario"] == "MLPerf Interactive":
        pattern = r"Interactive:? (\d+)(?:ms)?/(\d+)"
    found = re.search(pattern, row["notes"])
    return Ceiling(ttft_s=float(found.group(1)) / 1e3, tpot_s=float(found.group(2)) / 1e3) if found else Ceiling()
