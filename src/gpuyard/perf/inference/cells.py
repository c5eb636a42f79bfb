"""Cells of a published serving row as shapes, formats and layouts, with the facts that the table has no column for."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import KvFormat, Precision, WeightFormat
from gpuyard.perf.inference.shape import Shape

__all__ = ["Row", "layout_of", "number", "pools_of", "precision_of", "shape_of_row", "whole"]

Row = dict[str, str]
CHUNK_TOKENS = 4096.0  # of the cache that Llama 4 reads within chunks of 8,192: half of one, on average
WINDOW = re.compile(r"alternating (\d+)-token")


def number(row: Row, key: str, default: float = float("nan")) -> float:
    """A cell as a number above zero."""
    text = row.get(key) or ""
    value = float(text) if text else default
    if text and not 0.0 < value < float("inf"):
        raise ValueError(f"{key}: {text}")
    return value


def whole(row: Row, key: str, default: int = 1) -> int:
    """A cell as a whole number; zero and empty are the default."""
    text = row.get(key) or ""
    return int(float(text)) or default if text else default


def shape_of_row(row: Row) -> Shape:
    """The shape, from the architecture columns and the words of the `moe` column."""
    words = row["moe"]
    layers, hidden, heads = number(row, "layers"), number(row, "hidden"), number(row, "heads")
    shape = Shape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=number(row, "kv_heads", heads),
        head_dim=number(row, "head_dim", hidden / heads),
        ffn=number(row, "ffn", 0.0),
        vocab=number(row, "vocab"),
        gated=not re.search(r"GPT-J|BLOOM|Falcon|OPT|MPT", row["model"]),
        tied=bool(re.search(r"BLOOM|Gemma", row["model"])),
    )
    if "Gemma" in row["model"]:
        shape = replace(shape, gated=True)
    if "every 4th layer" in words:
        shape = replace(shape, linear_layers=layers - layers // 4)
    if found := WINDOW.search(words):
        shape = replace(shape, window_layers=layers / 2.0, window_tokens=float(found.group(1)))
    if "Llama-4" in row["model"]:  # three layers of four attend within chunks (its config.json)
        shape = replace(shape, window_layers=0.75 * layers, window_tokens=CHUNK_TOKENS)
    if re.search(r"Qwen3|Llama-4|MiniMax-M2", row["model"]):  # their code in Transformers: q_norm, k_norm, qk_norm
        shape = replace(shape, head_norms=True)
    if "MiniMax-M2" in row["model"]:  # its config.json: qk_norm_type per_layer
        shape = replace(shape, joint_norms=True)
    if "MLA" in words:
        shape = replace(
            shape, kv_heads=1.0, head_dim=128.0, q_rank=1536.0, kv_rank=512.0, rope_dim=64.0, nope_dim=128.0
        )
        if "sparse" in words:  # GLM-5: sparse attention picks 2,048 tokens (its config.json: index_topk)
            shape = replace(shape, q_rank=2048.0, head_dim=256.0, nope_dim=192.0, sparse_tokens=2048.0)
    return _with_experts(shape, words)


def _with_experts(shape: Shape, words: str) -> Shape:
    """The experts that the `moe` column describes."""
    found = re.search(r"(\d+)e top(\d+)", words)
    if not found:
        return shape
    width = re.search(r"expert ffn (\d+)", words)
    shared, wide = re.search(r"\+ (\d+) shared", words), re.search(r"shared (\d{3,})", words)
    first, dense = re.search(r"first (\d+) layers dense", words), re.search(r"dense ffn (\d+)", words)
    ffn = float(width.group(1)) if width else shape.ffn
    layers = shape.layers - (float(first.group(1)) if first else 0.0)
    if "every 2nd layer" in words:
        layers = shape.layers / 2.0
    return replace(
        shape,
        experts=float(found.group(1)),
        experts_per_token=float(found.group(2)),
        expert_ffn=ffn,
        shared_ffn=float(wide.group(1)) if wide else float(shared.group(1)) * ffn if shared else 0.0,
        expert_layers=layers,
        ffn=float(dense.group(1)) if dense else shape.ffn,
    )


def precision_of(row: Row, shape: Shape, chip: ServingChip) -> Precision:
    """Formats of weights and cache; where the source is silent, what such a checkpoint has."""
    text = row["weights_prec"].lower()
    words: tuple[tuple[str, WeightFormat], ...] = (
        ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("fp4", "nvfp4"), ("fp8_block", "fp8-block"), ("fp8", "fp8"),
        ("int8", "int8"), ("int4", "int4-weights"),
    )  # fmt: skip
    weights: WeightFormat = next((form for word, form in words if word in text), "bf16")
    if row["model"].startswith("gpt-oss"):
        weights = "mxfp4"  # however the source calls it
    if not text and row["scenario"].startswith("MLPerf"):  # submissions use the smallest format that the chip has
        weights = "nvfp4" if chip.fp4_flop_per_s else "fp8" if chip.fp8_flop_per_s else "bf16"
    latent = shape.kv_rank > 0
    own = shape.experts and row["engine"].startswith(("vLLM", "SGLang"))
    if weights == "fp8" and (latent or own):
        weights = "fp8-block"  # the makers' own checkpoints: a scale for each block of 128 x 128
    if weights == "int8" and chip.kernels != "tpu":
        weights = "int8-weights"
    attention: WeightFormat | None = None
    if weights == "mxfp4" or (weights in ("nvfp4", "int4-weights") and (latent or shape.linear_layers)):
        attention = "bf16"  # such checkpoints leave attention alone
    return Precision(weights=weights, attention=attention, kv=_kv(row, weights, chip))


def _kv(row: Row, weights: WeightFormat, chip: ServingChip) -> KvFormat:
    """The cache's format: as stated; else fp8 where the engine's recipes for quantised checkpoints set it."""
    text = row["kv_prec"].lower()
    if text:
        return "int8" if "int8" in text else "fp8" if "fp8" in text else "bf16"
    if weights in ("bf16", "int4-weights", "int8-weights"):
        return "bf16"
    quantised = weights in ("fp8", "nvfp4", "mxfp4", "fp8-block")
    if weights == "mxfp4" and not chip.fp4_flop_per_s:
        return "bf16"  # release 1.2 of TensorRT-LLM states fp8 on Blackwell alone
    if row["engine"].startswith("TensorRT") or row["scenario"].startswith("MLPerf"):
        return "fp8" if quantised and chip.fp8_flop_per_s else "bf16"
    return "fp8" if chip.kernels in ("blackwell", "ultra") and quantised else "bf16"


def layout_of(row: Row) -> tuple[ReplicaLayout, int] | None:
    """One replica and how many there are; None where the source does not say.

    Some tables multiply degrees that are the same chips: tp x ep, or dp x tp; identical figures of the same runs
    in other tables show which (64 chips of tp 64 and ep 8 are the 8 chips of tp 8 and ep 8; 16 chips of tp 4, dp 4 and
    ep 16 are the 4 chips of tp 4 and ep 4).
    """
    if not row["n_chips"]:
        return None
    chips = whole(row, "n_chips")
    tp, pp, ep, dp = whole(row, "tp", 0), whole(row, "pp"), whole(row, "ep"), whole(row, "dp")
    doubled = re.search(r"moe_tp (\d+)", row["notes"])
    if doubled and ep > 1 and dp == 1 and int(doubled.group(1)) * ep == tp and int(doubled.group(1)) > 1:
        tp //= ep
        return ReplicaLayout(tp=tp, ep=ep), 1
    if doubled and tp == dp > 1 and ep == tp * dp and row["engine"] == "vLLM" and "fp4" not in row["weights_prec"]:
        return ReplicaLayout(tp=tp, ep=tp), 1  # the scripts of such runs have no attention data parallelism
    if doubled and ep > 1 and dp > 1:
        ranks = tp if tp > 1 else min(dp, ep)
        return ReplicaLayout(tp=1, ep=ranks, attention_dp=ranks), 1
    if not tp:
        return None
    apart = "enable_attention_dp: true" in row["notes"] and "Scout" not in row["model"]  # its rows fit plain tp
    if apart and row["moe"] and tp > 1:
        return ReplicaLayout(tp=1, pp=pp, ep=tp, attention_dp=tp), max(1, chips // (tp * pp))
    if ep > 1 and dp > 1:
        return ReplicaLayout(tp=tp, pp=pp, ep=ep, attention_dp=dp), 1
    return ReplicaLayout(tp=tp, pp=pp, ep=ep), max(1, chips // (tp * pp))


POOL = re.compile(r"(prefill|decode) (\d*)x\(tp(\d+)(?: pp(\d+) dp(\d+) ep(\d+) bs\d*)?\)")


def pools_of(row: Row) -> tuple[tuple[ReplicaLayout, int], tuple[ReplicaLayout, int]] | None:
    """Prefill and decode pools of a disaggregated run; None where the source leaves out how many replicas."""
    found = {name: cells for name, *cells in POOL.findall(row["disagg"])}
    if set(found) != {"prefill", "decode"} or not all(cells[0] for cells in found.values()):
        return None
    both = []
    for name in ("prefill", "decode"):
        count, tp, pp, dp, ep = (int(cell) if cell else 1 for cell in found[name])
        attention = dp if dp > 1 else 1
        both.append((ReplicaLayout(tp=tp, pp=pp, ep=min(ep, tp * attention), attention_dp=attention), count))
    return both[0], both[1]
