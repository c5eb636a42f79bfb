"""Loads of published serving benchmarks: requests, lengths, arrivals, latency limits."""

from __future__ import annotations

import re

from gpuyard.perf.inference.case import BenchmarkLoad, Ceiling
from gpuyard.perf.inference.run_columns import Row, number

DRIFT_TOKENS = 2  # closed loops of fixed length: clients drift apart by a step or two
SHARED_RATIO = 0.9  # prefix-cache hits with shared prompts: 45 of 500 requests have a new one
# Requests of TensorRT-LLM's offline tables by input and output length (perf-overview.md of 0.15 and
# later; 1024 and 2048 as 1000 and 2000).
OFFLINE_REQUESTS = {
    (128, 128): 30000,
    (20000, 2000): 1000,
    (5000, 500): 1500,
    (2048, 2048): 1500,
    (128, 4096): 1500,
    (1000, 2000): 1500,
    (1024, 2048): 1500,
}
MLPERF_S = 600.0  # min_duration of mlperf.conf; samples repeat until then
# Log-normal spreads of prompts and outputs of the MLPerf datasets (OpenOrca, its mix with GSM8K and
# MBXP, LongBench, CNN-DailyMail, reasoning problems), of outputs from the latency percentiles of
# mlperf_log_summary.txt (rounds 4.1 and 5.1, NVIDIA); the longest prompt and output; samples
# (performance_sample_count of its mlperf.conf), requested equally often.
MLPERF = (
    ("Llama-2-70B", (0.75, 0.6), (1024.0, 1024.0), 24576),
    ("Mixtral", (0.9, 0.8), (2048.0, 1024.0), 15000),
    ("405B", (0.6, 0.3), (20000.0, 2000.0), 8313),
    ("8B", (0.45, 0.0), (2540.0, 128.0), 13368),
    ("DeepSeek", (1.0, 1.5), (4096.0, 20000.0), 4388),
    ("GPT-J", (0.45, 0.35), (1919.0, 128.0), 13368),
    ("gpt-oss", (0.5, 0.2), (20000.0, 10240.0), 6396),
)
# Prompt and output tokens of GPT-J, whose rows state none: the articles of Llama 3.1 8B, and 69
# tokens per sample (tokens over samples per second of mlperf_log_summary.txt, round 4.1).
SUMMARY_TOKENS = (870.73, 69.0)
SUMMARY_S = 20.0  # target_latency of gptj.Server in mlperf.conf, end to end
FULL_TOKENS = 128.0  # output of Llama 3.1 8B: tokens over samples per second of those logs


def load_of(row: Row) -> BenchmarkLoad | str:
    """Return the load of a run, or the reason why it is unknown."""
    scenario, note = row["scenario"], row["len_note"]
    output = number(row, "output_len")
    if scenario.startswith("MLPerf") and "8B" in row["model"]:
        output = FULL_TOKENS
    prompt = number(row, "input_len", 32.0 if "short prompt" in note else float("nan"))
    if _is_summarisation(row):
        prompt, output = SUMMARY_TOKENS
    if "ShareGPT, 2000 prompts" in note:
        prompt, output = 220.0, 200.0  # as runs of this benchmark that state their totals
    if prompt != prompt or output != output:
        return "missing: lengths"
    if scenario.startswith("MLPerf"):
        return _mlperf(row, prompt, output)
    if scenario.startswith("static"):
        batch = int(number(row, "batch"))
        return BenchmarkLoad(
            kind="static", requests=batch, prompt_tokens=prompt, output_tokens=output, slots=batch
        )
    count = int(number(row, "n_requests", 0.0) or 0)
    if scenario.startswith("offline"):
        return _offline(row, prompt, output, count)
    if scenario == "fixed concurrency":
        users = int(number(row, "concurrency"))
        if row["batch"] and row["dp"] in ("", "0", "1") and not row["disagg"]:
            users = int(number(row, "batch"))  # of one replica; concurrency counts all
        low = 0.8 if "0.8" in note else 1.0
        return BenchmarkLoad(
            kind="closed",
            requests=count or 10 * users,
            prompt_tokens=prompt,
            output_tokens=output,
            users=users,
            low_ratio=low,
            variation=(0.0, 0.5 if "no ignore_eos" in note else 0.0),
            drift_tokens=DRIFT_TOKENS,
            polls="InferenceX" in row["notes"],  # its recipes set polling intervals
        )
    return _open(row, prompt, output, count)


def _offline(row: Row, prompt: float, output: float, count: int) -> BenchmarkLoad:
    default_count = OFFLINE_REQUESTS.get(
        (int(prompt), int(output)), 1000 if prompt + output > 20000 else 3000
    )
    slots = int(number(row, "batch", 0.0) or 0) if row["engine"].startswith("JetStream") else 0
    spread = (0.8, 0.8) if "ShareGPT" in row["len_note"] else (0.0, 0.0)
    return BenchmarkLoad(
        kind="offline",
        requests=count or default_count,
        prompt_tokens=prompt,
        output_tokens=output,
        slots=slots,
        users=int(number(row, "concurrency", 0.0) or 0),
        variation=spread,
        most_tokens=(1024.0, 1024.0) if slots else (1e9, 1e9),
    )


def _open(row: Row, prompt: float, output: float, count: int) -> BenchmarkLoad | str:
    """Return an open loop: requests at a rate, or in one burst."""
    burst = "inf" in row["scenario"]
    rate = 0.0 if burst else number(row, "qps")
    if rate != rate:
        return "missing: rate"
    limits = re.search(r"max_num_seqs (\d+), max_num_batched_tokens (\d+)", row["notes"])
    return BenchmarkLoad(
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
    """Return the measured throughput; requests per second times mean output length for GPT-J."""
    return (
        SUMMARY_TOKENS[1] * number(row, "req_s")
        if _is_summarisation(row)
        else number(row, "out_tok_s_total")
    )


def _is_summarisation(row: Row) -> bool:
    """Return whether a run is MLPerf's GPT-J summarisation, which reports requests per second."""
    return row["scenario"].startswith("MLPerf") and row["model"].startswith("GPT-J")


def _mlperf(row: Row, prompt: float, output: float) -> BenchmarkLoad | str:
    """Return the load of an MLPerf benchmark; servers have p99 latency limits."""
    dataset = next((cells for cells in MLPERF if cells[0] in row["model"]), None)
    if dataset is None:
        return "lengths of this MLPerf benchmark are unknown"
    server = row["scenario"] != "MLPerf Offline"
    ceiling = _ceiling(row)
    if server and ceiling == Ceiling():
        return "missing: limits of the server scenario"
    return BenchmarkLoad(
        kind="mlperf-server" if server else "mlperf-offline",
        requests=dataset[3],
        prompt_tokens=prompt,
        output_tokens=round(output),
        rate_per_s=number(row, "qps", 0.0) if server else 0.0,
        variation=dataset[1],
        most_tokens=dataset[2],
        run_s=MLPERF_S,
        ceiling=ceiling,
    )


def _ceiling(row: Row) -> Ceiling:
    """Return the p99 latency limits of a server scenario."""
    if _is_summarisation(row):
        return Ceiling(e2e_s=SUMMARY_S)
    pattern = r"Server: (?:p99 )?TTFT<=(\d+)ms,? TPOT<=(\d+)ms"
    if row["scenario"] == "MLPerf Interactive":
        pattern = r"Interactive:? (\d+)(?:ms)?/(\d+)"
    limits = re.search(pattern, row["notes"])
    if limits is None:
        return Ceiling()
    return Ceiling(ttft_s=float(limits.group(1)) / 1e3, tpot_s=float(limits.group(2)) / 1e3)
