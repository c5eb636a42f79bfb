"""Time of the kernels of a layer on one chip: matrix products, attention, element-wise passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.perf.constants import Constants
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Machine, Software
from gpuyard.perf.operators import Product, attention_pairs, micro_tokens

TILE_M, TILE_N = 128.0, 256.0  # cuBLAS' usual tensor-core tile
UNFUSED = 0.5  # more element-wise traffic where norms, residuals and activations are separate kernels
ELEMENTWISE_PASSES = 12.0  # over the residual stream, forward: two norms (2 x 2), two residuals (2 x 3), casts (2)
GEMM_K_FILL = 107.0  # elements; fitted on the 183 A100 shapes of SimuMax (mean error 4.0 %)
# columns of a head that the tensor cores multiply in the time of one exponential (FlashAttention 4, sect. 2)
EXPONENTIAL_COLUMNS = np.array([32.0, 64.0, 128.0, 64.0, 64.0])
GEMM_RAMP_S = 4.3e-6  # start and drain of a kernel; same fit


def _pad(x: Array, to: float) -> Array:
    return np.ceil(x / to) * to


def product_s(
    m: Array,
    n: Array,
    k: Array,
    count: Array,
    chip: Machine,
    c: Constants,
    out_bytes: Array | float = 2.0,
    grouped: Array | float = 0.0,
) -> Array:
    """Seconds of count equal matrix products (m x k) @ (k x n).

    grouped: one product per expert; the operands of its first wave come cold from HBM while nothing is computed
    (SimuMax's 108 grouped shapes on B200).
    """
    bytes_each = chip.gemm_bytes * (m * k + k * n) + out_bytes * m * n
    gpu = chip.sm_count > 0
    sms = np.where(gpu, chip.sm_count, 1.0)
    tiles = np.ceil(m / TILE_M) * np.ceil(n / TILE_N) * count / sms  # in waves
    waves = np.where(gpu, np.ceil(tiles) / np.maximum(tiles, 1e-9), 1.0)
    waves = np.minimum(waves, 4.0)  # smaller tiles or split-K take over
    rate = chip.gemm_flop_per_s * chip.gemm_ratio
    core_s = (
        2.0
        * _pad(m, TILE_M)
        * _pad(n, TILE_M)
        * k
        * count
        / rate  # whole tiles, tensor cores at their sustained rate
        * (1.0 + GEMM_K_FILL / np.maximum(k, 1.0))  # filling the pipeline of each tile
        * (1.0 + c.gemm_wave_ratio * (waves - 1.0))  # last wave of tiles partly idle
    )
    memory_s = bytes_each * count / (chip.hbm_bytes_per_s * c.hbm_ratio)  # operands and result through HBM
    each = np.maximum(tiles / np.maximum(count, 1.0), 1.0)  # waves of one expert's product
    cold = np.minimum(core_s, memory_s) / each * (np.asarray(grouped) > 0)
    return (np.maximum(core_s, memory_s) + cold + GEMM_RAMP_S) * (count > 0)


def products_s(
    products: Sequence[Product],
    chip: Machine,
    c: Constants,
    sum_bytes: Array | float = 8.0,
    grouped: Array | float = 0.0,
) -> tuple[Array, Array, Array]:
    """Seconds of the forward, input-gradient and weight-gradient passes of all products.

    sum_bytes: read and written per weight to add its gradient, 8 in fp32 and 4 in bf16.
    """
    forward = dgrad = wgrad = np.zeros(())
    for p in products:
        forward = forward + product_s(p.m, p.n, p.k, p.count, chip, c, 2.0, grouped)
        dgrad = dgrad + product_s(p.m, p.k, p.n, p.count, chip, c, 2.0, grouped)
        wgrad = wgrad + product_s(p.n, p.k, p.m, p.count, chip, c, sum_bytes, grouped)
    return forward, dgrad, wgrad


def attention_ratio(chip: Machine, c: Constants) -> Array:
    """Best rate of fused attention over the bf16 peak, by chip generation."""
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
    arch: Architecture, layout: Layout, chip: Machine, soft: Software, c: Constants
) -> tuple[Array, Array]:
    """Forward and backward seconds of fused causal attention (FlashAttention 2: backward 2.5 x the products)."""
    pairs = micro_tokens(arch, layout) * attention_pairs(arch) * arch.heads / layout.tp
    lanes = np.where(chip.generation == GENERATIONS.index("tpu"), 128.0, 32.0)
    width = np.ceil(arch.qk_head_dim / lanes) * lanes + np.ceil(arch.head_dim / lanes) * lanes
    flop = 2.0 * pairs * (width + 2.0 * c.exponential_exposed * EXPONENTIAL_COLUMNS[chip.generation])
    hopper = chip.generation == GENERATIONS.index("hopper")
    old = np.where((soft.flash2 > 0) & hopper, c.flash2_ratio, 1.0)
    rate = chip.bf16_flop_per_s * attention_ratio(chip, c) * chip.speed * old
    return flop / rate, 2.5 * flop / rate


def score_attention_s(arch: Architecture, layout: Layout, chip: Machine, c: Constants) -> tuple[Array, Array]:
    """Forward and backward seconds of attention that writes its scores (before 2022): full square, softmax in HBM."""
    pairs = micro_tokens(arch, layout) * arch.seq_tokens * arch.heads / layout.tp
    width = _pad(arch.qk_head_dim, 64.0) + _pad(arch.head_dim, 64.0)
    odd = np.where(arch.head_dim % 8.0 != 0, c.unaligned_ratio, 1.0)  # rows not 16-byte aligned: no tensor cores
    flop_s = 2.0 * pairs * width / (chip.bf16_flop_per_s * chip.bf16_ratio) * odd
    bytes_s = pairs * c.score_bytes / (chip.hbm_bytes_per_s * c.hbm_ratio)
    return flop_s + bytes_s, 2.0 * flop_s + 1.5 * bytes_s


def elementwise_s(
    arch: Architecture, layout: Layout, chip: Machine, unfused: Array, c: Constants
) -> tuple[Array, Array]:
    """Forward and backward seconds of norms, residuals, rotary embedding and activation in one dense layer."""
    t = micro_tokens(arch, layout)
    whole = 2.0 * t * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    inner = 2.0 * t * ((2.0 + arch.gated) * arch.ffn + 2.0 * (arch.heads + arch.kv_heads) * arch.head_dim) / layout.tp
    bytes_ = (ELEMENTWISE_PASSES * whole + inner) * (1.0 + UNFUSED * unfused)
    bytes_ = bytes_ * np.where(chip.generation == GENERATIONS.index("tpu"), 0.5, 1.0)  # XLA fuses half into products
    forward = bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio * chip.speed)
    return forward, 2.0 * forward


def cast_s(products: Sequence[Product], chip: Machine, c: Constants) -> tuple[Array, Array]:
    """Forward and backward seconds of quantising activations and gradients to the product's precision."""
    rate = chip.hbm_bytes_per_s * c.hbm_ratio * chip.speed / (c.cast_ratio * chip.cast_bytes + 1e-30)
    forward = backward = np.zeros(())
    for p in products:
        forward = forward + p.m * p.k * p.count / rate
        backward = backward + p.m * p.n * p.count / rate
    return forward, backward
