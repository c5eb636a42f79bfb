"""The columns of a table of training runs, and the cells that a model's name fills in."""

from __future__ import annotations

from gpuyard.catalog import Catalog, Model, find
from gpuyard.errors import InputError

__all__ = ["COLUMNS", "filled", "shape_cells"]

COLUMNS = (
    "id", "source", "source_ref", "measured_on", "model", "arch_type", "layers", "hidden", "heads", "kv_heads",
    "head_dim", "ffn", "gated_ffn", "vocab", "seq_len", "moe_experts", "moe_topk", "moe_shared", "moe_ffn",
    "params_total_b", "params_active_b", "chip", "chips_per_node", "n_chips", "network", "precision", "framework",
    "task", "tp", "pp", "dp", "cp", "ep", "vpp", "zero_or_fsdp", "seq_parallel", "recompute", "micro_batch",
    "grad_accum", "global_batch", "step_time_s", "tokens_per_s_per_chip", "model_tflops_per_chip", "mfu_pct",
    "hfu_pct", "mem_gb_per_chip", "flops_convention", "ref_step_time_s", "ref_basis", "trust", "notes",
)  # fmt: skip


def filled(row: dict[str, str], catalog: Catalog) -> dict[str, str]:
    """The row with every column; a blank shape is the catalog's for the model, a blank trust is A."""
    whole = {name: (row.get(name) or "").strip() for name in COLUMNS}
    whole["chip"] = _published(whole["chip"])
    whole["trust"] = whole["trust"] or "A"
    whole["ref_step_time_s"] = whole["ref_step_time_s"] or whole["step_time_s"]
    whole["task"] = whole["task"] or "pretrain"
    if whole["layers"]:
        whole["arch_type"] = whole["arch_type"] or ("moe" if whole["moe_experts"] else "dense")
        return whole
    try:
        model = find("models", whole["model"], catalog.models)
    except InputError:
        return whole
    return whole | {name: text for name, text in shape_cells(model).items() if not whole[name]}


def _published(chip: str) -> str:
    """A chip's name of the catalog as published runs write it, which is what profiles and layouts go by."""
    if chip.startswith("tpu-"):
        return chip.replace("tpu-v", "TPU v").replace("tpu-", "TPU")
    return chip.upper() if chip.islower() else chip


def shape_cells(model: Model) -> dict[str, str]:
    """The cells that a model of the catalog fills."""
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
        shared = shape.moe.shared_experts * (shape.moe.shared_ffn or shape.moe.expert_ffn) / shape.moe.expert_ffn
        cells |= {
            "moe_experts": shape.moe.experts,
            "moe_topk": shape.moe.top_k,
            "moe_ffn": shape.moe.expert_ffn,
            "moe_shared": shared,
        }
    return {name: str(value) for name, value in cells.items()}
