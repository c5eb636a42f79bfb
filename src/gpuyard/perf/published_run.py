"""One published training run as model inputs, with defaults for what the source omits."""

from __future__ import annotations

import re

import numpy as np

from gpuyard.perf.chip_kernels import ChipKernels, Precision
from gpuyard.perf.profiles import SoftwareProfile
from gpuyard.units import bytes_from_bits

Row = dict[str, str]
NEEDED = ("layers", "hidden", "heads", "vocab", "n_chips", "global_batch", "seq_len")
MAY_BE_ZERO = (
    "ffn",
    "gated_ffn",
    "moe_experts",
    "moe_topk",
    "moe_shared",
    "moe_ffn",
    "seq_parallel",
)
PRECISION_NOTE = re.compile(
    r"\b(?:trained|training|run|ran|measured|GEMMs?|compute) in ((?:bf|fp|mxfp|nvfp)\d+)\b",
    re.IGNORECASE,
)  # in the notes of a run
PACKED_TOKENS = 512.0  # mean sample length of fine-tuning sets that are packed to seq_len


def number(row: Row, key: str, default: float = float("nan")) -> float:
    """Return a cell as a number; raise ValueError where it is out of range."""
    text = row.get(key) or ""
    value = float(text) if text else default
    sensible = 0.0 < value < float("inf") or (value == 0.0 and key in MAY_BE_ZERO)
    if text and not sensible:
        raise ValueError(f"{key}: {text}")
    return value


def unsupported_reason(row: Row) -> str:
    """Return why a row cannot be modelled; empty where it can."""
    if row["arch_type"] not in ("dense", "moe", ""):
        return "architecture: hybrid or other"
    if "known regression" in row["notes"]:
        return "the source reports a performance regression of the container"
    missing = [key for key in NEEDED if not row[key]]
    if missing:
        return "missing: " + ", ".join(missing)
    ranks = number(row, "tp", 1.0) * number(row, "pp", 1.0) * number(row, "cp", 1.0)
    return "tp x pp x cp does not divide n_chips" if number(row, "n_chips") % ranks else ""


PRECISION_WORDS: tuple[tuple[str, Precision], ...] = (  # patterns, the first that matches counts
    ("nvfp4", "nvfp4"),
    ("(?<!without _)fp4", "fp4"),
    ("mxfp8", "mxfp8"),
    ("fp8-mx", "mxfp8"),
    ("rowwise", "fp8-row"),
    ("int8", "int8"),
    ("fp8", "fp8"),
)
HALF = re.compile(r"\b(amp_)?(bf|fp|float|bfloat)-?16|half|mixed|\b16[- ]bit", re.IGNORECASE)


def precision_of(text: str) -> Precision:
    """Return the GEMM precision from the text of a source."""
    known = (name for pattern, name in PRECISION_WORDS if re.search(pattern, text.lower()))
    return next(known, "bf16")


def precision_contradiction(row: Row) -> str:
    """Return what a row says of its precision that the prediction does not follow; else empty."""
    text = row["precision"]
    if not text:
        return "precision not stated: bf16 is predicted"
    if precision_of(text) == "bf16" and not HALF.search(text):
        return f'precision "{text}" is not known: bf16 is predicted'
    stated = {precision_of(word) for word in PRECISION_NOTE.findall(row["notes"])}
    if stated and precision_of(text) not in stated:
        return f'precision "{text}", and the notes say {PRECISION_NOTE.findall(row["notes"])[0]}'
    return ""


def architecture_cells(row: Row) -> dict[str, float]:
    """Return the architecture, with properties of model families that have no column."""
    model, sequence = row["model"], number(row, "seq_len")
    layers, hidden, heads = number(row, "layers"), number(row, "hidden"), number(row, "heads")
    experts, latent = number(row, "moe_experts", 0.0), model.startswith(("DeepSeek", "Kimi"))
    head = 128.0 if latent else number(row, "head_dim", hidden / heads)
    full, window = _attention_span(row, sequence)
    extra = _extra_heads(row)
    slots = re.search(r"capacity(?: factor)? ([\d.]+)", row["notes"])
    moe_ffn = number(row, "moe_ffn", 0.0)
    return {
        "layers": layers + extra,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": number(row, "kv_heads", heads),
        "head_dim": head,
        "qk_head_dim": 192.0 if latent else head,
        "ffn_hidden": number(row, "ffn", 0.0),
        "gated": number(row, "gated_ffn", 0.0),
        "vocab": number(row, "vocab"),
        "tied_embedding": float(_is_tied(row)),
        "packed_sequence_tokens": sequence,
        "attention_tokens": (
            min(sequence, PACKED_TOKENS) if row["task"] in ("SFT", "LoRA") else sequence
        ),
        "full_attention_ratio": full,
        "window_tokens": window,
        "experts": experts,
        "experts_per_token": number(row, "moe_topk", 0.0),
        "capacity": float(slots.group(1)) if slots else 1.0,
        "shared_ffn_hidden": number(row, "moe_shared", 0.0) * moe_ffn,
        "expert_ffn_hidden": moe_ffn,
        "moe_layers": layers + extra - _dense_layers(model) if experts else 0.0,
        "q_rank": 1536.0 if latent else 0.0,  # DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437)
        "kv_rank": 512.0 if latent else 0.0,
        "adapts_ffn": float("MLPerf" not in row["task"]),
        "trains_weights": 0.0 if row["task"].startswith("LoRA") else 1.0,
        "expert_bias": float(model.startswith("GPT-OSS")),
        "mtp": extra,
    }


def _extra_heads(row: Row) -> float:
    """Return MTP layers: DeepSeek-V3's recipes train one (NeMo, Megatron-Bridge, the paper)."""
    trained = row["model"] == "DeepSeek-V3" and re.search(
        "NeMo|Megatron-Bridge|HAI", row["framework"]
    )
    return 1.0 if trained and "w/o MTP" not in row["notes"] else 0.0


def _attention_span(row: Row, sequence: float) -> tuple[float, float]:
    """Return the share of full-attention layers, and the window of the others."""
    model = row["model"]
    if model.startswith("GPT-OSS"):  # every other layer has a window (gpt-oss config)
        # Splash attention processes keys in blocks of 1,024 (tpu-recipes): two of them.
        return 0.5, 1920.0 if row["chip"].startswith("TPU") else 128.0
    if model.startswith("Gemma3"):
        return 1.0 / 6.0, 1024.0  # five local layers, one global (Gemma 3 report)
    if "Llama4" in model:
        return 0.25, 8192.0  # chunks in three of four layers (Llama 4 config)
    return 1.0, sequence


def _dense_layers(model: str) -> float:
    """Return the layers of an MoE model that have a dense FFN."""
    if "Maverick" in model:
        return 24.0  # every other layer (Llama 4 config)
    if model == "DeepSeek-V3":
        return 3.0
    return (
        1.0 if model.startswith(("DeepSeek", "Kimi")) else 0.0
    )  # proxies with fewer layers have one


def _is_tied(row: Row) -> bool:
    first_note = row["notes"].split(";")[0].replace("untied", "")
    return (
        row["model"].startswith(("MPT", "GPT-", "GPT3", "BLOOM", "Gemma")) or "tied" in first_note
    )


def recompute_cells(row: Row, arch: dict[str, float], flash: bool) -> dict[str, float]:
    """Return the shares of the forward pass that are recomputed, from the policy's name."""
    policy = row["recompute"].lower()
    qkv = arch["hidden"] * (arch["heads"] + 2 * arch["kv_heads"]) * arch["head_dim"]
    width = max(
        arch["ffn_hidden"],
        arch["expert_ffn_hidden"] * arch["experts_per_token"] + arch["shared_ffn_hidden"],
    )
    down = arch["hidden"] * width
    layer = qkv + arch["hidden"] ** 2 + (2 + arch["gated"]) * down
    stored = 0.0
    if row["framework"].startswith(("MaxText", "JAX", "Pathways")):
        stored += down / layer  # XLA drops a recomputed layer's last GEMM: its output is unused
    if "qkv" in policy:
        stored += qkv / layer
    if "out_proj" in policy:
        stored += arch["hidden"] ** 2 / layer
    if policy.startswith("full") or "custom" in policy or "qkv" in policy:
        return _recompute(1.0 - stored, 1.0, 1.0, 1.0)
    if policy.startswith("selective"):
        return _recompute(0.5, 0.0, 1.0, 0.5) if flash else _recompute(0.0, 1.0, 0.0, 0.0)
    return _recompute(0.0, 0.0, float(policy.startswith("minimal")), 0.0)


def _recompute(gemm: float, attention: float, elementwise: float, comm: float) -> dict[str, float]:
    return {
        "recompute_gemm": gemm,
        "recompute_attention": attention,
        "recompute_elementwise": elementwise,
        "recompute_comm": comm,
    }


def selective_cells(arch: dict[str, float], modules: tuple[str, ...]) -> dict[str, float]:
    """Return the shares that Megatron's selective recomputation of these modules recomputes."""
    attention = (
        arch["hidden"] * (arch["q_rank"] + arch["kv_rank"] + 64.0)
        + arch["hidden"] * arch["heads"] * 128.0
    )
    up = arch["heads"] * (arch["q_rank"] * arch["qk_head_dim"] + arch["kv_rank"] * 256.0)
    width = arch["experts_per_token"] * arch["expert_ffn_hidden"] + arch["shared_ffn_hidden"]
    experts = (2.0 + arch["gated"]) * arch["hidden"] * width
    gemm = up / (up + attention + experts) if "mla_up_proj" in modules else 0.0
    light = (
        0.25 * ("layernorm" in modules)
        + 0.15 * ("moe_act" in modules)
        + 0.1 * ("mla_up_proj" in modules)
    )
    return _recompute(gemm, float("core_attn" in modules), light, 0.0)


def layout_cells(row: Row, arch: dict[str, float], profile: SoftwareProfile) -> dict[str, float]:
    """Return parallel sizes and batch, with defaults for what the source omits."""
    tpu, framework = row["chip"].startswith("TPU"), row["framework"]
    chips, batch = number(row, "n_chips"), number(row, "global_batch")
    tp, pp, cp = number(row, "tp", 1.0), number(row, "pp", 1.0), number(row, "cp", 1.0)
    dp = chips / (tp * pp * cp)
    micro = _micro_batch(row, batch, dp, pp)
    everywhere = 1.0 if tpu else min(chips / pp, arch["experts"])
    fsdp, shard = _sharding(row, profile, dp * cp)
    parallel = "flash" in profile.flags and "InternEvo" not in framework
    return {
        "chips": chips,
        "tp": tp,
        "pp": pp,
        "dp": dp,
        "cp": cp,
        "ep": number(row, "ep", everywhere) if arch["experts"] else 1.0,
        "virtual_pipeline": _virtual_stages(row, arch["layers"], pp),
        "micro_batch": micro,
        "grad_accum": batch / (dp * micro),
        "seq_parallel": number(row, "seq_parallel", float(parallel)),
        "fsdp": float(fsdp),
        "shard_ranks": max(1.0, min(shard, dp * cp)),
    }


def _virtual_stages(row: Row, layers: float, pp: float) -> float:
    framework = row["framework"]
    if framework.startswith("HAI") or ("torchtitan" in framework and "Interleaved" in framework):
        return 2.0  # DualPipe; torchtitan's default of two stages per rank
    # NeMo's recipes interleave.
    usual = layers / pp if framework in ("NeMo", "NeMo/Megatron-Core") else 1.0
    return number(row, "vpp", usual) if pp > 1 else 1.0


def _micro_batch(row: Row, batch: float, dp: float, pp: float) -> float:
    if row["chip"].startswith("TPU"):
        return batch / dp  # MaxText runs the whole batch in one pass
    # torchtitan: as many micro-batches as stages.
    usual = max(batch / dp / pp, 1.0) if row["framework"].startswith("torchtitan") else 1.0
    return float(np.minimum(number(row, "micro_batch", usual), batch / dp))


def _sharding(row: Row, profile: SoftwareProfile, ranks: float) -> tuple[bool, float]:
    """Return whether parameters are sharded (FSDP), and the ranks of a shard group."""
    zero, framework = row["zero_or_fsdp"], row["framework"]
    fsdp = bool(re.search("FSDP|zero3|fully", zero))
    fsdp = fsdp or framework.startswith(("Composer", "DeepSpeed"))
    if fsdp or (not zero and framework.startswith("MaxText")):
        group = re.search(r"FSDP (\d+)|within (\d+)|(\d+)-way fully", zero)
        return True, float(next(text for text in group.groups() if text)) if group else ranks
    if "zero1" in zero or "dist-opt" in zero or "dist_opt" in profile.flags:
        within = re.search(r"within (\d+)", zero)
        return False, min(float(within.group(1)), ranks) if within else ranks
    return False, 1.0


def network_cells(row: Row, silicon: ChipKernels) -> tuple[float, float, float]:
    """Return chips per scale-up domain, chips per board, and network bytes per second per chip."""
    text, per_node = row["network"], number(row, "chips_per_node", 8.0)
    slices = re.search(r"(\d+) slice\(s\) (?:x|of) (\d+)", text)
    domain = float(slices.group(2)) if slices else float(silicon.usual_domain_count)
    board = 4.0 if "OmniPath" in text else domain  # Jean Zay: two boards of four A100
    nic_bytes_per_s = bytes_from_bits(silicon.usual_nic_bits_per_s)
    ports = re.search(r"(\d+)x ?(?:OmniPath )?(\d+) ?G", text)
    node = re.search(r"(\d+) ?Gbps/node", text)
    per_chip = re.search(r"(\d+) ?Gb(?:ps|/s)[^;]*(?:/GPU|per GPU)", text)
    if ports:
        bits_per_s = float(ports.group(1)) * float(ports.group(2)) * 1e9
        nic_bytes_per_s = bytes_from_bits(bits_per_s) / per_node
    elif node:
        nic_bytes_per_s = bytes_from_bits(float(node.group(1)) * 1e9) / per_node
    elif per_chip:
        nic_bytes_per_s = bytes_from_bits(float(per_chip.group(1)) * 1e9)
    return domain, board, nic_bytes_per_s
