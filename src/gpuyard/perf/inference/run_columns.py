"""Columns of a published serving row as shapes, dtypes and layouts."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import KvFormat, Precision, WeightFormat
from gpuyard.perf.inference.shape import DecoderShape

Row = dict[str, str]
CHUNK_TOKENS = 4096.0  # mean KV-cache reads of Llama 4 in chunks of 8,192
WINDOW = re.compile(r"alternating (\d+)-token")


def number(row: Row, key: str, default: float = float("nan")) -> float:
    """Return a cell as a positive number; raise ValueError for others."""
    text = row.get(key) or ""
    value = float(text) if text else default
    if text and not 0.0 < value < float("inf"):
        raise ValueError(f"{key}: {text}")
    return value


def integer(row: Row, key: str, default: int = 1) -> int:
    """Return a cell as an integer; the default for zero and blank."""
    text = row.get(key) or ""
    if not text:
        return default
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{key}: {text}")
    return int(value) or default


def counted_in_chips(row: Row) -> Row:
    """Return the row with chips counted as GPUs, and parallel sizes in chips.

    A card with two GPUs counts as two; tables of Neuron count the two cores of each chip in tp.
    """
    if "Dual" in row["notes"] and row["n_chips"]:
        row = {**row, "n_chips": str(2 * integer(row, "n_chips"))}
    if "NeuronCores (2 a chip)" in row["len_note"]:
        row = {**row, "tp": str(max(1, integer(row, "tp") // 2))}
    return row


def shape_of_row(row: Row) -> DecoderShape:
    """Return the shape from the architecture columns and the text of the `moe` column."""
    words = row["moe"]
    layers, hidden, heads = number(row, "layers"), number(row, "hidden"), number(row, "heads")
    shape = DecoderShape(
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
        # Gated delta layers of Qwen3-Next (config.json: 16 key and 32 value heads of 128, hidden
        # 2,048): queries and keys as wide as the hidden state, values and gate twice as wide.
        shape = replace(
            shape,
            linear_layers=layers - layers // 4,
            linear_in=5.0 * hidden,
            linear_out=2.0 * hidden,
            linear_state=256.0 * hidden,
        )
    if window := WINDOW.search(words):
        shape = replace(shape, window_layers=layers / 2.0, window_tokens=float(window.group(1)))
    if "Llama-4" in row["model"]:  # three layers of four attend within chunks (its config.json)
        shape = replace(shape, window_layers=0.75 * layers, window_tokens=CHUNK_TOKENS)
    if re.search(r"Qwen3|Llama-4|MiniMax-M2", row["model"]):  # q_norm, k_norm in Transformers
        shape = replace(shape, head_norms=True)
    if "MiniMax-M2" in row["model"]:  # its config.json: qk_norm_type per_layer
        shape = replace(shape, joint_norms=True)
    if "MLA" in words:
        shape = replace(
            shape,
            kv_heads=1.0,
            head_dim=128.0,
            q_rank=1536.0,
            kv_rank=512.0,
            rope_dim=64.0,
            nope_dim=128.0,
        )
        if "sparse" in words:  # GLM-5: index_topk 2,048 (config.json)
            shape = replace(
                shape, q_rank=2048.0, head_dim=256.0, nope_dim=192.0, sparse_tokens=2048.0
            )
    return _with_experts(shape, words)


def _with_experts(shape: DecoderShape, words: str) -> DecoderShape:
    experts = re.search(r"(\d+)e top(\d+)", words)
    if not experts:
        return shape
    width = re.search(r"expert ffn (\d+)", words)
    shared, wide = re.search(r"\+ (\d+) shared", words), re.search(r"shared (\d{3,})", words)
    first = re.search(r"first (\d+) layers dense", words)
    dense = re.search(r"dense ffn (\d+)", words)
    ffn = float(width.group(1)) if width else shape.ffn
    layers = shape.layers - (float(first.group(1)) if first else 0.0)
    if "every 2nd layer" in words:
        layers = shape.layers / 2.0
    return replace(
        shape,
        experts=float(experts.group(1)),
        experts_per_token=float(experts.group(2)),
        expert_ffn=ffn,
        shared_ffn=(
            float(wide.group(1)) if wide else float(shared.group(1)) * ffn if shared else 0.0
        ),
        expert_layers=layers,
        ffn=float(dense.group(1)) if dense else shape.ffn,
    )


def precision_of(row: Row, shape: DecoderShape, chip: ServingChip) -> Precision:
    """Return the dtypes of weights and KV cache, with defaults for what the row omits."""
    text = row["weights_prec"].lower()
    words: tuple[tuple[str, WeightFormat], ...] = (
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
        ("fp4", "nvfp4"),
        ("fp8_block", "fp8-block"),
        ("fp8", "fp8"),
        ("int8", "int8"),
        ("int4", "int4-weights"),
    )
    weights: WeightFormat = next((form for word, form in words if word in text), "bf16")
    if row["model"].startswith("gpt-oss"):
        weights = "mxfp4"  # the checkpoint's dtype; sources call it fp4, bf16 or nothing
    if not text and row["scenario"].startswith("MLPerf"):  # the smallest dtype of the chip
        weights = "nvfp4" if chip.fp4_flop_per_s else "fp8" if chip.fp8_flop_per_s else "bf16"
    latent = shape.kv_rank > 0
    own = shape.experts and row["engine"].startswith(("vLLM", "SGLang"))
    if weights == "fp8" and (latent or own):
        weights = "fp8-block"  # official checkpoints: one scale per block of 128 × 128
    if weights == "int8" and chip.kernels != "tpu":
        weights = "int8-weights"
    attention: WeightFormat | None = None
    if weights == "mxfp4" or (
        weights in ("nvfp4", "int4-weights") and (latent or shape.linear_layers)
    ):
        attention = "bf16"  # such checkpoints do not quantise attention
    return Precision(weights=weights, attention=attention, kv=_kv(row, weights, chip))


def _kv(row: Row, weights: WeightFormat, chip: ServingChip) -> KvFormat:
    """Return the stated KV-cache dtype; else fp8 where the engine's recipes set it."""
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
    """Return the layout of a replica and the number of replicas; None where it is not stated.

    Some tables multiply sizes of the same chips: tp × ep, or dp × tp. Identical values of the same
    runs in other tables show which: 64 chips of tp 64 and ep 8 are 8 chips of tp 8 and ep 8; 16
    chips of tp 4, dp 4 and ep 16 are 4 chips of tp 4 and ep 4.
    """
    if not row["n_chips"]:
        return None
    chips = integer(row, "n_chips")
    tp, pp, ep, dp = (
        integer(row, "tp", 0),
        integer(row, "pp"),
        integer(row, "ep"),
        integer(row, "dp"),
    )
    doubled = re.search(r"moe_tp (\d+)", row["notes"])
    if (
        doubled
        and ep > 1
        and dp == 1
        and int(doubled.group(1)) * ep == tp
        and int(doubled.group(1)) > 1
    ):
        tp //= ep
        return ReplicaLayout(tp=tp, ep=ep), 1
    if (
        doubled
        and tp == dp > 1
        and ep == tp * dp
        and row["engine"] == "vLLM"
        and "fp4" not in row["weights_prec"]
    ):
        return ReplicaLayout(tp=tp, ep=tp), 1  # its scripts have no attention data parallelism
    if doubled and ep > 1 and dp > 1:
        ranks = tp if tp > 1 else min(dp, ep)
        return ReplicaLayout(tp=1, ep=ranks, attention_dp=ranks), 1
    if not tp:
        return None
    # Scout's rows fit plain TP.
    attention_dp = "enable_attention_dp: true" in row["notes"] and "Scout" not in row["model"]
    if attention_dp and row["moe"] and tp > 1:
        return ReplicaLayout(tp=1, pp=pp, ep=tp, attention_dp=tp), max(1, chips // (tp * pp))
    if ep > 1 and dp > 1:
        return ReplicaLayout(tp=tp, pp=pp, ep=ep, attention_dp=dp), 1
    return ReplicaLayout(tp=tp, pp=pp, ep=ep), max(1, chips // (tp * pp))


POOL = re.compile(r"(prefill|decode) (\d*)x\(tp(\d+)(?: pp(\d+) dp(\d+) ep(\d+) bs\d*)?\)")


def pools_of(row: Row) -> tuple[tuple[ReplicaLayout, int], tuple[ReplicaLayout, int]] | None:
    """Return prefill and decode pools of a disaggregated run; None without replica counts."""
    pools = {name: cells for name, *cells in POOL.findall(row["disagg"])}
    if set(pools) != {"prefill", "decode"} or not all(cells[0] for cells in pools.values()):
        return None
    both = []
    for name in ("prefill", "decode"):
        count, tp, pp, dp, ep = (int(cell) if cell else 1 for cell in pools[name])
        attention = dp if dp > 1 else 1
        both.append(
            (ReplicaLayout(tp=tp, pp=pp, ep=min(ep, tp * attention), attention_dp=attention), count)
        )
    return both[0], both[1]
