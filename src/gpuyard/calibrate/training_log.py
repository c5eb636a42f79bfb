"""Training logs as rows of measured steps.

Reads the step times that Megatron-LM, NeMo, Megatron Bridge and torchtitan print, and the arguments
that Megatron prints at startup; the user supplies what a log does not state.
Sources of the formats: NVIDIA/Megatron-LM megatron/training/training.py (training_log) and
arguments.py (_print_args); NVIDIA/NeMo train_step_timing; pytorch/torchtitan components/metrics.py.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping

from gpuyard.errors import InputError

WARM_UP_RATIO = 0.2  # of the steps, at the start of a log
STEPS = (  # pattern, seconds per unit
    (re.compile(r"elapsed time per iteration \(ms\):\s*(\d+\.?\d*)"), 1e-3),
    (re.compile(r"train_step_timing(?: in s)?[:=]\s*(\d+\.?\d*)"), 1.0),
    (re.compile(r"Step Time\s*:\s*(\d+\.?\d*)\s*s", re.IGNORECASE), 1.0),
)
TOKENS = re.compile(r"\btps:\s*(\d[\d,]*)")  # torchtitan: tokens per second and GPU
ARGUMENT = re.compile(r"^\s*(?:\d+:\s*)?(\w+) \.{3,} (\S+)\s*$", re.MULTILINE)
# Megatron argument: column of a table of runs
ARGUMENTS = {
    "world_size": "n_chips",
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "micro_batch_size": "micro_batch",
    "global_batch_size": "global_batch",
    "seq_length": "seq_len",
    "num_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "num_query_groups": "kv_heads",
    "ffn_hidden_size": "ffn",
    "padded_vocab_size": "vocab",
    "num_experts": "moe_experts",
    "moe_router_topk": "moe_topk",
    "moe_ffn_hidden_size": "moe_ffn",
}


def is_training_log(text: str) -> bool:
    """Return whether a text contains step times of a known trainer."""
    return bool(TOKENS.search(text)) or any(pattern.search(text) for pattern, _ in STEPS)


def row_of_log(text: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the median step of a log as a row of measured runs; `settings` take precedence."""
    row: dict[str, str] = {}
    known = dict(ARGUMENT.findall(text))
    for argument, column in ARGUMENTS.items():
        if (value := known.get(argument, "None")) not in ("None", "0"):
            row[column] = value
    if known.get("swiglu") == "True":
        row["gated_ffn"] = "1"
    if known:
        row["precision"] = "fp8" if known.get("fp8", "None") != "None" else "bf16"
        row["framework"] = "Megatron-LM"
        row["recompute"] = "full" if known.get("recompute_granularity") == "full" else ""
    row |= {"model": "own", **settings}
    for pattern, unit in STEPS:
        if steps := [float(value) * unit for value in pattern.findall(text)]:
            row["step_time_s"] = f"{_median(steps):.6g}"
            return row
    rates = [float(value.replace(",", "")) for value in TOKENS.findall(text)]
    if rates and (chips := row.get("n_chips")):
        if not re.fullmatch(r"[0-9]{1,9}", chips):
            fix = "add --set n_chips=64"
            raise InputError.one("n_chips", f'"{chips[:20]}" is not a number of chips', fix)
        row["tokens_per_s"] = f"{_median(rates) * int(chips):.6g}"
        row.setdefault("framework", "torchtitan compile")
    return row


def _median(values: list[float]) -> float:
    return statistics.median(values[int(WARM_UP_RATIO * len(values)) :])
