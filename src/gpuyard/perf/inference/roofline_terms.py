"""Cost coefficients of one replica: seconds per term of a scheduler iteration."""

from __future__ import annotations

import numpy as np

from gpuyard.perf.inference.calibration import (
    ChipQuantity,
    EngineQuantity,
    Kernel,
    ServingCalibration,
)
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.columns import COLUMNS, Row
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision, WeightFormat
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.inference.shape import DecoderShape

# Elementwise reads and writes of the hidden state per layer, 2 bytes each: two norms, two
# residuals, casts, RoPE and KV-cache writes.
ELEMENTWISE_PASSES = 14.0
ALL_REDUCE_HALF_BYTES = 1e6  # all-reduces switch from one-shot to two-shot or ring (0.25-8 MB)
INDEX_RATIO = 132.0 / 656.0  # bytes per token: indexer key over fp8 latent (DeepSeek-V3.2)
DEQUANTISED = ("int4", "mxfp4")  # expert weights dequantised to 16 bits in the kernel
PACKED = (*DEQUANTISED, "block", "fp4")  # expert weights with their own streaming bandwidth
ACTIVATION_FORMATS: dict[WeightFormat, str] = {
    "fp8": "fp8",
    "fp8-block": "fp8",
    "int8": "fp8",
    "nvfp4": "fp4",
}
# Kernel launches of query and key norms (three) over those of a layer (about twelve).
NORM_LAUNCH_RATIO = 0.25
MAX_GRAPH_SEQUENCES = 2**20  # CUDA graph size without a limit
GROUP_HEADS = 8.0  # query heads per KV head that the constant kv_group refers to
# Attention roofline: exponent of the smooth maximum of memory and compute.
TENSOR_CORE_POWER, CUDA_CORE_POWER = 3.0, 8.0
# Full tiles of a prompt are read once for all beams, the last one per beam (TensorRT-LLM's XQA).
BEAM_TILE_TOKENS = 256.0
CHIPS_PER_SOCKET = 4  # of a host with two CPU sockets and eight chips on PCIe
# Chip kinds whose 8-bit GEMM tiles have the same prologue and epilogue as 16-bit ones.
EQUAL_TILE_OVERHEAD = ("ampere", "ada", "tpu")
NETWORK_BYTES_PER_S = 50e9  # unidirectional, per chip: a 400 Gbit/s NIC
PCIE_BYTES_PER_S = 63e9  # unidirectional, per chip: PCIe 5.0 x16


def costs_row(
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    layout: ReplicaLayout,
    engine: ServingEngine,
    calibration: ServingCalibration,
) -> Row:
    """Return the coefficients of the step-time model, in the order of COLUMNS."""
    cost = _Costs(shape, chip, precision, layout, engine, calibration)
    cells = cost.gemms() | cost.experts() | cost.attention() | cost.links() | cost.overheads()
    return np.array(
        [cells.get(name, 1.0 if name == "all_reduce_half" else 0.0) for name in COLUMNS]
    )


def largest_graph(engine: ServingEngine) -> float:
    """Return the largest CUDA graph for decode padding, in sequences; 0: no padding."""
    return float(engine.graph_sequences or MAX_GRAPH_SEQUENCES) if engine.pads else 0.0


def request_s(
    engine: ServingEngine, prompt_tokens: float, calibration: ServingCalibration
) -> float:
    """Return seconds per request outside the engine: network, front end, tokenizer."""
    fixed = calibration.engine(engine.name, "request_us")
    token = calibration.engine(engine.name, "request_token_us")
    return (fixed + token * prompt_tokens) * 1e-6


def _smooth_max_s(compute_s: float, memory_s: float, power: float) -> float:
    """Return a smooth maximum of overlapping times; a higher power is closer to the maximum."""
    return float((compute_s**power + memory_s**power) ** (1.0 / power))


class _Costs:
    """Coefficients of one replica by column name; each method computes some of the columns."""

    def __init__(
        self,
        shape: DecoderShape,
        chip: ServingChip,
        precision: Precision,
        layout: ReplicaLayout,
        engine: ServingEngine,
        constants: ServingCalibration,
    ) -> None:
        self.shape, self.chip, self.precision, self.layout = shape, chip, precision, layout
        self.engine, self.constants, self.group = engine, constants, chip.kernels

    def _chip(self, quantity: ChipQuantity) -> float:
        return self.constants.chip(self.group, quantity)

    def _engine(self, quantity: EngineQuantity) -> float:
        return self.constants.engine(self.engine.name, quantity)

    def rate_flop_per_s(self, weights: WeightFormat, kernel: Kernel = "gemm") -> float:
        """Return the sustained GEMM rate: the best peak for the dtype times kernel efficiency."""
        names = FORMATS[weights].peaks
        if weights == "mxfp4" and self.chip.fp4_flop_per_s:
            names = ("fp8",)  # fp8 activations
        for name in names:
            if peak := self.chip.peak_flop_per_s(name):
                return (
                    peak
                    * self.constants.matmul(self.group, kernel, self._kind(weights, name))
                    * self._engine("gemm")
                )
        raise ValueError(f"{self.chip.name} cannot multiply {weights} weights; callers check")

    def _kind(self, weights: WeightFormat, peak: str) -> str:
        """Return the name of the efficiency constant of a dtype's GEMMs at that peak."""
        if (weights, peak) in (("fp8-block", "fp8"), ("nvfp4", "fp4")):
            return weights
        return peak

    def chain_s(self, weights: WeightFormat) -> float:
        """Return seconds per element of the serial loop over the inner dimension."""
        name = "bf16" if FORMATS[weights].peaks == ("bf16",) else "low"
        return self.constants[f"chain.{name}"] * 1e-9

    def tile_elements(self, weights: WeightFormat) -> float:
        """Return prologue and epilogue of a GEMM tile, in elements of the inner dimension."""
        low = FORMATS[weights].peaks[0] != "bf16" and self.group not in EQUAL_TILE_OVERHEAD
        return self.constants["tile.low" if low else "tile.bf16"]

    def _gemm(
        self, name: str, weights: WeightFormat, count: float, inner: float, outer: float
    ) -> dict[str, float]:
        """Return the roofline of `count` GEMMs with inner × outer weights on this rank."""
        form, memory = FORMATS[weights], self.chip.memory_bytes_per_s * self._chip("stream")
        tile_overhead = self.tile_elements(weights)
        return {
            f"{name}_compute": 2.0
            * count
            * (inner + tile_overhead)
            * outer
            / self.rate_flop_per_s(weights),
            f"{name}_chain": count * inner * self.chain_s(weights),
            f"{name}_activations": count * (inner * form.activation_bytes + 2.0 * outer) / memory,
            f"{name}_weights": count * inner * outer * form.weight_bytes / memory,
        }

    def gemms(self) -> dict[str, float]:
        """Return the GEMMs of attention projections, dense FFNs, shared experts and LM head."""
        s, tp = self.shape, self.layout.tp
        attention, mlp = self.precision.projections, self.precision.weights
        if mlp == "mxfp4":
            mlp = "bf16"  # only routed experts are in mxfp4 (gpt-oss model card)
        linear, plain = s.linear_layers, s.softmax_layers
        if s.kv_rank:
            queries = s.heads / tp * (s.nope_dim + s.rope_dim)
            wide = (
                (s.hidden * s.q_rank + s.q_rank * queries if s.q_rank else s.hidden * queries)
                + s.hidden * (s.kv_rank + s.rope_dim)  # on every rank
                + s.kv_rank * s.heads / tp * (s.nope_dim + s.head_dim)  # absorbed into q and out
            )
        else:
            heads = (1.0 + s.attention_gate) * s.heads + 2.0 * max(s.kv_heads, tp)
            wide = s.hidden * heads * s.head_dim / tp
        weights = (plain * wide + linear * s.hidden * s.linear_in / tp) / s.layers
        inner = s.heads * s.head_dim / tp
        out = (plain * inner + linear * s.linear_out / tp) / s.layers
        width = self._ffn_width()
        gate = s.matrices - 1.0
        return (
            self._gemm("qkv", attention, s.layers, s.hidden, weights / s.hidden)
            | self._gemm("out", attention, s.layers, out, s.hidden)
            | (self._gemm("up", mlp, s.layers, s.hidden, gate * width) if width else {})
            | (self._gemm("down", mlp, s.layers, width, s.hidden) if width else {})
            | self._gemm("head", "bf16", 1.0, s.hidden, s.vocab / tp)
        )

    def experts(self) -> dict[str, float]:
        """Return the coefficients of routed experts on the average rank."""
        s, lay = self.shape, self.layout
        if not s.experts:
            return {}
        weights = self.precision.weights
        form = FORMATS[weights]
        local = s.experts / lay.ep  # experts per rank
        width = s.expert_ffn / lay.expert_tp  # FFN width of an expert on this rank
        size = s.matrices * s.hidden * width  # weights of an expert on this rank
        share = s.experts_per_token / lay.tp  # experts computed on this rank per token of this rank
        moe_kernels = (
            self.constants[f"{self.engine.experts}.experts"] if self.engine.experts else 1.0
        )
        memory = self.chip.memory_bytes_per_s * self._chip("expert_stream") * moe_kernels
        kind = self._expert_kind()
        if kind in PACKED:
            memory *= self.constants[f"expert_stream.{kind}"]
        rate = self.rate_flop_per_s(weights, "experts") * moe_kernels
        padded_size = size + self.tile_elements(weights) * ((s.matrices - 1.0) * width + s.hidden)
        passes = self.constants["moe.passes"]
        if kind in DEQUANTISED:
            rate *= self.constants[f"expert_rate.{kind}"]
            passes *= self.constants["expanded.passes"]
        # Bytes of activations read and written per token.
        moved_bytes = share * lay.expert_tp * (8.0 * s.hidden + 12.0 * width) * passes
        return {
            "experts": s.experts,
            "experts_per_token": s.experts_per_token,
            "expert_compute": 2.0 * s.expert_layers * share * padded_size * lay.expert_tp / rate,
            "expert_chain": s.expert_layers * (s.hidden + width) * self.chain_s(weights),
            "expert_pad": (
                2.0
                * s.expert_layers
                * local
                * padded_size
                * self.constants["moe.pad_tokens"]
                / rate
            ),
            "expert_activations": s.expert_layers * moved_bytes / self.chip.memory_bytes_per_s,
            "expert_weights": s.expert_layers * local * size * form.weight_bytes / memory,
            "expert_spread": float(lay.attention_dp),
        }

    def _expert_kind(self) -> str:
        """Return how kernels read experts: dequantised, block-scaled, on fp4 cores, or plain."""
        weights = self.precision.weights
        if weights == "mxfp4" and not self.chip.fp4_flop_per_s:
            return "mxfp4"
        return {"int4-weights": "int4", "fp8-block": "block", "nvfp4": "fp4", "mxfp4": "fp4"}.get(
            weights, "plain"
        )

    def attention(self) -> dict[str, float]:
        """Return prefill and decode attention, linear-attention states, elementwise kernels."""
        s, tp, memory = self.shape, self.layout.tp, self.chip.memory_bytes_per_s
        kv_bytes = KV_BYTES[self.precision.kv]
        rate = self.chip.bf16_flop_per_s * self._chip("attention")
        heads = s.heads / tp
        dims = s.nope_dim + s.rope_dim + s.head_dim if s.kv_rank else 2.0 * s.head_dim
        pair = 2.0 * heads * dims / rate
        if s.kv_rank:
            read = (s.kv_rank + s.rope_dim) * kv_bytes / (memory * self._chip("latent"))
            flop = 2.0 * heads * (2.0 * s.kv_rank + s.rope_dim)
            latent_rate = self.chip.bf16_flop_per_s * self._chip("latent_rate")
            cached = _smooth_max_s(flop / latent_rate, read, TENSOR_CORE_POWER)
        else:
            kv_heads = max(s.kv_heads / tp, 1.0)
            element_s = self._element_s(self.engine.beams * heads / kv_heads, kv_bytes)
            cached = 2.0 * kv_heads * s.head_dim * element_s
        # Read and written.
        state = 2.0 * 2.0 * s.linear_state / tp / (memory * self._chip("kv"))
        # Elementwise: the hidden state is replicated on all ranks, the FFN's inner state is split.
        inner = 3.0 * self._ffn_width() + 2.0 * heads * s.head_dim
        touched = s.layers * 2.0 * (ELEMENTWISE_PASSES * s.hidden + inner)
        far, near = s.full_layers, s.window_layers
        if s.sparse_tokens:  # the indexer reads every token, attention the selected ones
            far, near = INDEX_RATIO * s.full_layers, s.full_layers
        slot = self.engine.slot_tokens
        return {
            "pair": far * pair,
            "window_pair": near * pair,
            "window_tokens": s.sparse_tokens or s.window_tokens,
            "kv": 0.0 if slot else far * cached,
            "window_kv": 0.0 if slot else near * cached,
            "state": s.linear_layers * state + slot * (far + near) * cached,
            "token": self._engine("passes") * touched / (memory * self._chip("stream")),
            # Every rank samples from the full vocabulary, in fp32.
            "logits": self.constants[f"logits.{self.engine.runtime}"] * 4.0 * s.vocab / memory,
        }

    def _element_s(self, group: float, kv_bytes: float) -> float:
        """Return seconds per KV-cache element: roofline of its read and its query heads' FLOPs."""
        smallest, largest = self.engine.groups
        plain = kv_bytes / self.chip.memory_bytes_per_s
        read = plain / self._chip("kv")
        if self.engine.beams > 1 or smallest <= group <= largest:
            compute = plain * group / GROUP_HEADS / self._chip("kv_group")
            return _smooth_max_s(compute, read, TENSOR_CORE_POWER)
        rate = self.chip.bf16_flop_per_s * self.constants["ungrouped.rate"]  # no tensor cores
        # Converted once, then one multiply-add per query head.
        return _smooth_max_s(2.0 * (group + 1.0) / rate, read, CUDA_CORE_POWER)

    def _ffn_width(self) -> float:
        """Return the mean inner width per layer of dense FFNs and shared experts on a rank."""
        s = self.shape
        width = (s.mlp_layers - s.expert_layers) * s.ffn + s.expert_layers * s.shared_ffn
        return width / s.layers / self.layout.tp

    def links(self) -> dict[str, float]:
        """Return TP all-reduces, and expert dispatch and combine with attention DP."""
        s, lay, link = self.shape, self.layout, self.chip.link
        if lay.tp * lay.attention_dp > self.chip.link_chip_count:
            link = "network" if link.startswith(("nvlink", "ici", "xgmi")) else "pcie5"
        latency_ratio, rate_ratio = self._pcie_ratios(link)
        rate = self._link_bytes_per_s(link) * self.constants.link(link, "ratio") * rate_ratio
        alpha = self.constants.link(link, "latency_us") * 1e-6 * latency_ratio
        cells: dict[str, float] = {}
        if lay.tp > 1:
            count = 2.0 * s.layers - (s.expert_layers if lay.attention_dp > 1 else 0.0)
            norms = s.layers * s.joint_norms  # all-reduces of one number per token
            grow = 0.5 + 0.25 * np.log2(lay.tp)  # the latency constant is for four ranks
            cells["all_reduce_floor"] = (count + norms) * alpha * grow * self._engine("reduce")
            cells["all_reduce_token"] = (
                count * 2.0 * (lay.tp - 1.0) / lay.tp * 2.0 * s.hidden / rate
            )
            # A one-shot all-reduce reads the buffers of all other ranks.
            cells["all_reduce_ramp"] = (
                count * alpha * (lay.tp - 1.0) / 3.0 * self.constants["reduce.ramp"]
            )
            if self.engine.direct and lay.tp == 2 and link.startswith("pcie"):
                cells["all_reduce_ramp"] = count * self.constants["pcie.direct_us"] * 1e-6
            cells["all_reduce_half"] = ALL_REDUCE_HALF_BYTES / (2.0 * s.hidden)
        if lay.attention_dp > 1 and s.experts:
            act = FORMATS[self.precision.weights].activation_bytes
            copies = min(s.experts_per_token, lay.ep) * (lay.ep - 1.0) / lay.ep / lay.tp
            cells["all_to_all_floor"] = (
                2.0 * s.expert_layers * alpha * self.constants["exchange.latency_ratio"]
            )
            cells["all_to_all_token"] = s.expert_layers * copies * s.hidden * (act + 2.0) / rate
        if lay.pp > 1:
            cells["all_to_all_floor"] = cells.get("all_to_all_floor", 0.0) + lay.pp * alpha
            cells["all_to_all_token"] = (
                cells.get("all_to_all_token", 0.0) + lay.pp * 2.0 * s.hidden / rate
            )
        return cells

    def _pcie_ratios(self, link: str) -> tuple[float, float]:
        """Return latency and bandwidth of the chips' PCIe over the link's; 1 for other links."""
        if not link.startswith("pcie"):
            return 1.0, 1.0
        across = self._chip("across_rate") if self.layout.tp > CHIPS_PER_SOCKET else 1.0
        return self._chip("bus_latency"), self._chip("bus_rate") * across

    def _link_bytes_per_s(self, link: str) -> float:
        if link == "network":
            return NETWORK_BYTES_PER_S
        return self.chip.link_bytes_per_s if link == self.chip.link else PCIE_BYTES_PER_S

    def _expert_launch_ratio(self) -> float:
        """Return the launch overhead of an MoE layer over that with 16-bit or fp8 weights."""
        kind = self._expert_kind() if self.shape.experts else "plain"
        return 1.0 if kind == "plain" else self.constants[f"expert_layer.{kind}"]

    def _quantise_us(self) -> float:
        """Return microseconds per layer to quantise activations to the GEMM dtype."""
        total_us = 0.0
        for weights in (self.precision.projections, self.precision.weights):
            if name := ACTIVATION_FORMATS.get(weights):
                total_us += 0.5 * self.constants[f"quantise.{name}_us"]
        return total_us

    def overheads(self) -> dict[str, float]:
        """Return kernel launch overhead, host time, beams, stages and stragglers."""
        s = self.shape
        layer = self._chip("layer_us") + self._engine("layer_us") + self._quantise_us()
        kinds = (
            s.expert_layers
            * self._chip("expert_layer_us")
            * self._expert_launch_ratio()  # routing, sorting
            + s.layers * self._chip("latent_layer_us") * (s.kv_rank > 0)  # more projections
            + s.layers * self.constants["norms.layer_us"] * s.head_norms
            + s.layers * self.constants["sparse.layer_us"] * (s.sparse_tokens > 0)  # indexer
        )
        dp = self.layout.attention_dp
        return {
            "layers": 1e-6 * (s.layers * layer + kinds),
            "eager": (
                1e-6
                * (
                    s.layers
                    * self._engine("eager_layer_us")
                    * (1.0 + NORM_LAUNCH_RATIO * s.head_norms)
                    + s.expert_layers * self._engine("eager_expert_us")
                )
            ),
            "replays": float(self.engine.graphs),
            "host": 1e-6 * self._engine("host_us"),
            "host_sequence": 1e-6 * self._engine("host_sequence_us"),
            "host_token": 1e-6 * self._engine("host_token_us"),
            "beams": float(self.engine.beams),
            "reread": (self.engine.beams - 1.0) * 0.5 * BEAM_TILE_TOKENS,
            "ranks": 1.0,
            "stages": float(self.layout.pp),
            "pads": largest_graph(self.engine),
            "straggler": 1.0 + self.constants["dp.straggler"] * np.log2(dp),
            "prefill_straggler": 1.0 + self.constants["dp.prefill_straggler"] * np.log2(dp),
        }
