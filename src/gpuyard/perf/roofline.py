"""Roofline times of a layer's kernels: matmul (GEMM), attention, elementwise memory passes.

A kernel takes the longer of its FLOPs over the sustained FLOP/s and its bytes over the sustained
HBM bandwidth; the constants of `TrainingConstants` are the share of each peak that kernels sustain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.operators import Gemm, attention_pairs, micro_tokens

TILE_M, TILE_N = 128.0, 256.0  # cuBLAS' usual tensor-core tile
UNFUSED_RATIO = 0.5  # extra elementwise traffic of separate norm, residual, activation kernels
# Over the residual stream, forward: two norms (2 × 2), two residuals (2 × 3), casts (2).
ELEMENTWISE_PASSES = 12.0
GEMM_K_FILL = 107.0  # elements; fitted on the 183 A100 shapes of SimuMax (mean error 4.0 %)
GEMM_RAMP_S = 4.3e-6  # start and drain of a kernel; same fit
# Head columns that tensor cores multiply in the time of one exponential, by chip generation
# (FlashAttention 4, section 2).
EXPONENTIAL_COLUMNS = np.array([32.0, 64.0, 128.0, 64.0, 64.0])


def _pad(x: Array, to: float) -> Array:
    return np.ceil(x / to) * to


def gemm_s(
    m: Array,
    n: Array,
    k: Array,
    count: Array,
    chip: TrainingChip,
    c: TrainingConstants,
    out_bytes: Array | float = 2.0,
    grouped: Array | float = 0.0,
) -> Array:
    """Return the seconds of `count` equal GEMMs (m × k) @ (k × n) by their roofline.

    grouped: one GEMM per expert; the operands of its first wave are loaded from HBM while the
    tensor cores are idle (fitted on SimuMax's 108 grouped shapes on B200).
    """
    bytes_per_gemm = chip.gemm_bytes * (m * k + k * n) + out_bytes * m * n
    gpu = chip.sm_count > 0
    sms = np.where(gpu, chip.sm_count, 1.0)
    tiles = np.ceil(m / TILE_M) * np.ceil(n / TILE_N) * count / sms  # in waves
    waves = np.where(gpu, np.ceil(tiles) / np.maximum(tiles, 1e-9), 1.0)
    waves = np.minimum(waves, 4.0)  # smaller tiles or split-K take over
    rate = chip.gemm_flop_per_s * chip.gemm_ratio
    core_s = (
        2.0
        * _pad(m, TILE_M)  # whole tiles
        * _pad(n, TILE_M)
        * k
        * count
        / rate  # sustained FLOP/s of the tensor cores
        * (1.0 + GEMM_K_FILL / np.maximum(k, 1.0))  # fill the pipeline of each tile
        * (1.0 + c.gemm_wave_ratio * (waves - 1.0))  # wave quantisation: last wave partly idle
    )
    memory_s = (
        bytes_per_gemm
        * count  # operands and result
        / (chip.hbm_bytes_per_s * c.hbm_ratio)  # sustained HBM bandwidth
    )
    waves_per_gemm = np.maximum(tiles / np.maximum(count, 1.0), 1.0)
    cold = np.minimum(core_s, memory_s) / waves_per_gemm * (np.asarray(grouped) > 0)
    return (np.maximum(core_s, memory_s) + cold + GEMM_RAMP_S) * (count > 0)


def training_gemms_s(
    gemms: Sequence[Gemm],
    chip: TrainingChip,
    c: TrainingConstants,
    sum_bytes: Array | float = 8.0,
    grouped: Array | float = 0.0,
) -> tuple[Array, Array, Array]:
    """Return the seconds of the forward, input-gradient (dgrad) and weight-gradient (wgrad) GEMMs.

    sum_bytes: read and written per weight to accumulate gradients, 8 in fp32 and 4 in bf16.
    """
    forward = dgrad = wgrad = np.zeros(())
    for gemm in gemms:
        m, n, k, count = gemm.m, gemm.n, gemm.k, gemm.count
        forward = forward + gemm_s(m, n, k, count, chip, c, 2.0, grouped)
        dgrad = dgrad + gemm_s(m, k, n, count, chip, c, 2.0, grouped)
        wgrad = wgrad + gemm_s(n, k, m, count, chip, c, sum_bytes, grouped)
    return forward, dgrad, wgrad


def attention_ratio(chip: TrainingChip, c: TrainingConstants) -> Array:
    """Return the best FLOP/s of fused attention over the bf16 peak, by chip generation."""
    table = np.array(
        [
            c.attention_ratio_ampere,
            c.attention_ratio_hopper,
            c.attention_ratio_blackwell,
            c.attention_ratio_hopper,
            c.attention_ratio_tpu,
        ]
    )
    assert len(table) == len(GENERATIONS)
    return table[chip.generation]


def flash_attention_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software, c: TrainingConstants
) -> tuple[Array, Array]:
    """Return forward and backward seconds of fused causal attention (backward: 2.5 × the GEMMs)."""
    pairs = micro_tokens(arch, layout) * attention_pairs(arch) * arch.heads / layout.tp
    lanes = np.where(chip.generation == GENERATIONS.index("tpu"), 128.0, 32.0)
    width = np.ceil(arch.qk_head_dim / lanes) * lanes + np.ceil(arch.head_dim / lanes) * lanes
    flop = (
        2.0
        * pairs
        * (
            width
            + 2.0
            * c.exponential_exposed
            * EXPONENTIAL_COLUMNS[chip.generation]
            / chip.exponential_ratio
        )
    )
    hopper = chip.generation == GENERATIONS.index("hopper")
    old = np.where((soft.flash2 > 0) & hopper, c.flash2_ratio, 1.0)
    rate = chip.bf16_flop_per_s * attention_ratio(chip, c) * chip.elementwise_speed_ratio * old
    return flop / rate, 2.5 * flop / rate


def unfused_attention_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, c: TrainingConstants
) -> tuple[Array, Array]:
    """Return forward and backward seconds of attention that writes its full score matrix to HBM."""
    pairs = micro_tokens(arch, layout) * arch.packed_sequence_tokens * arch.heads / layout.tp
    width = _pad(arch.qk_head_dim, 64.0) + _pad(arch.head_dim, 64.0)
    # Rows that are not 16-byte aligned run without tensor cores.
    odd = np.where(arch.head_dim % 8.0 != 0, c.unaligned_ratio, 1.0)
    flop_s = 2.0 * pairs * width / (chip.bf16_flop_per_s * chip.bf16_ratio) * odd
    bytes_s = pairs * c.score_bytes / (chip.hbm_bytes_per_s * c.hbm_ratio)
    return flop_s + bytes_s, 2.0 * flop_s + 1.5 * bytes_s


def elementwise_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, unfused: Array, c: TrainingConstants
) -> tuple[Array, Array]:
    """Return forward and backward seconds of a dense layer's norms, residuals, RoPE, activation."""
    t = micro_tokens(arch, layout)
    whole = 2.0 * t * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    inner = (
        2.0
        * t
        * (
            (2.0 + arch.gated) * arch.ffn_hidden
            + 2.0 * (arch.heads + arch.kv_heads) * arch.head_dim
        )
        / layout.tp
    )
    bytes_ = (ELEMENTWISE_PASSES * whole + inner) * (1.0 + UNFUSED_RATIO * unfused)
    tpu = chip.generation == GENERATIONS.index("tpu")
    bytes_ = bytes_ * np.where(tpu, 0.5, 1.0)  # XLA fuses half of them into GEMMs
    forward = bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio * chip.elementwise_speed_ratio)
    return forward, 2.0 * forward


def cast_s(gemms: Sequence[Gemm], chip: TrainingChip, c: TrainingConstants) -> tuple[Array, Array]:
    """Return forward and backward seconds of casting activations and gradients to GEMM dtype."""
    rate = (
        chip.hbm_bytes_per_s
        * c.hbm_ratio
        * chip.elementwise_speed_ratio
        / (c.cast_ratio * chip.cast_bytes + 1e-30)
    )
    forward = backward = np.zeros(())
    for gemm in gemms:
        forward = forward + gemm.m * gemm.k * gemm.count / rate
        backward = backward + gemm.m * gemm.n * gemm.count / rate
    return forward, backward
