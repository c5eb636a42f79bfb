"""Columns of a table of training runs, and those that a catalog model fills."""

from __future__ import annotations

import math
import re

from gpuyard.catalog.load import Catalog, find
from gpuyard.catalog.models import Model
from gpuyard.errors import InputError
from gpuyard.perf.published_chip import published_chip

COLUMNS = (
    "id", "source", "source_ref", "measured_on", "model", "arch_type", "layers", "hidden",
    "heads", "kv_heads", "head_dim", "ffn", "gated_ffn", "vocab", "seq_len", "moe_experts",
    "moe_topk", "moe_shared", "moe_ffn", "params_total_b", "params_active_b", "chip",
    "chips_per_node", "n_chips", "network", "precision", "framework", "task", "tp", "pp", "dp",
    "cp", "ep", "vpp", "zero_or_fsdp", "seq_parallel", "recompute", "micro_batch", "grad_accum",
    "global_batch", "step_time_s", "tokens_per_s_per_chip", "model_tflops_per_chip", "mfu_pct",
    "hfu_pct", "mem_gb_per_chip", "flops_convention", "ref_step_time_s", "ref_basis", "trust",
    "notes",
)  # fmt: skip


# Short column names of a minimal table.
SHORT = {"count": "n_chips", "chips": "n_chips", "gpus": "n_chips"}
DEFAULT_TOKENS, DEFAULT_MICRO_BATCHES = 4096, 8  # per sequence; per pipeline stage and replica


def filled(row: dict[str, str], catalog: Catalog) -> dict[str, str]:
    """Return the row with every column; blanks are the catalog's shape, trust A, task pretrain.

    A minimal row has model, chip, count, layout ("tp8 pp2 ep1") and tokens_per_s; `assumed` lists
    the defaults used.
    """
    cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
    for short, name in SHORT.items():
        cells[name] = cells[name] or (row.get(short) or "").strip()
    for name, size in re.findall(r"\b(tp|pp|cp|ep|vpp)\s*[=:]?\s*(\d+)", row.get("layout") or ""):
        cells[name] = cells[name] or size
    cells["assumed"] = ""
    if rate := (row.get("tokens_per_s") or "").strip():
        cells |= _from_rate(cells, float(rate))
    cells = _in_chips(cells | {"chip": published_chip(cells["chip"])})
    cells["trust"] = cells["trust"] or "A"
    cells["ref_step_time_s"] = cells["ref_step_time_s"] or cells["step_time_s"]
    cells["task"] = cells["task"] or "pretrain"
    if cells["layers"]:
        cells["arch_type"] = cells["arch_type"] or ("moe" if cells["moe_experts"] else "dense")
        return cells
    try:
        model = find("models", cells["model"], catalog.models)
    except InputError:
        return cells
    return cells | {name: text for name, text in shape_cells(model).items() if not cells[name]}


def _from_rate(cells: dict[str, str], tokens_per_s: float) -> dict[str, str]:
    """Return the step time from a throughput, with defaults for missing columns."""
    if not cells["n_chips"] or tokens_per_s <= 0.0:
        return {}
    ranks = math.prod(int(cells[name] or 1) for name in ("tp", "pp", "cp"))
    replicas = max(1, int(cells["n_chips"]) // ranks)
    defaults = {
        "seq_len": DEFAULT_TOKENS,
        "global_batch": replicas * DEFAULT_MICRO_BATCHES * int(cells["pp"] or 1),
        "micro_batch": 1,
    }
    added = {name: str(value) for name, value in defaults.items() if not cells[name]}
    complete = cells | added
    if not cells["step_time_s"]:
        step_s = float(complete["global_batch"]) * float(complete["seq_len"]) / tokens_per_s
        added["step_time_s"] = f"{step_s:.6g}"
    assumed = ", ".join(f"{name} {value}" for name, value in added.items() if name in defaults)
    return added | {"assumed": assumed}


def _in_chips(cells: dict[str, str]) -> dict[str, str]:
    """Return a row whose source counts the two cores of a Trainium1 with sizes in chips."""
    if "NeuronCore-v2" not in cells["chip"]:
        return cells
    sizes = {name: cells[name] for name in ("n_chips", "tp", "chips_per_node") if cells[name]}
    return cells | {name: str(max(1, int(size) // 2)) for name, size in sizes.items()}


def shape_cells(model: Model) -> dict[str, str]:
    """Return the columns that a catalog model fills."""
    shape = model.transformer
    if shape is None:
        return {"arch_type": "hybrid/other"}
    cells: dict[str, object] = {
        "arch_type": "moe" if shape.moe else "dense",
        "layers": shape.layers,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "ffn": shape.ffn,
        "gated_ffn": int(shape.gated),
        "vocab": shape.vocab,
    }
    if shape.moe:
        shared = (
            shape.moe.shared_experts
            * (shape.moe.shared_ffn or shape.moe.expert_ffn)
            / shape.moe.expert_ffn
        )
        cells |= {
            "moe_experts": shape.moe.experts,
            "moe_topk": shape.moe.top_k,
            "moe_ffn": shape.moe.expert_ffn,
            "moe_shared": shared,
        }
    return {name: str(value) for name, value in cells.items()}
