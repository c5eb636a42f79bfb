"""The row of coefficients of one replica: what each part of a step costs, in seconds."""

from __future__ import annotations

import numpy as np

from gpuyard.perf.inference.calibration import Calibration
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.engine import Engine
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision, WeightFormat
from gpuyard.perf.inference.shape import LINEAR_STATE_WIDTH, Shape
from gpuyard.perf.inference.step import COLUMNS, Row

__all__ = ["costs_row", "largest_graph", "request_s"]

LAYER_PASSES = 14.0  # of 2 bytes over the hidden state: two norms, two residuals, casts, rotary and cache writes
REDUCE_HALF_BYTES = 1e6  # one-shot all-reduces give way to two-shot ones and rings about here (0.25 to 8 MB)
INDEX_RATIO = 132.0 / 656.0  # bytes of a token's index over those of its latent in fp8 (DeepSeek-V3.2 config)
EXPANDED = ("int4", "mxfp4")
STREAMS = (*EXPANDED, "block", "fp4")
QUANTISES: dict[WeightFormat, str] = {"fp8": "fp8", "fp8-block": "fp8", "int8": "fp8", "nvfp4": "fp4"}
NORM_LAUNCHES = 0.25  # of a layer's: three kernels that split off and normalise queries and keys, to about twelve
MOST_SEQUENCES = 2**20  # of a graph, where there is no limit
GROUP_HEADS = 8.0  # query heads a key, for which kv_group is quoted
# how reading and arithmetic of attention meet: power of a smooth maximum, on matrix cores as in products, and without
TILES_POWER, WARPS_POWER = 3.0, 8.0
BEAM_TILE_TOKENS = 256.0  # whole tiles of a prompt are read once for all beams, the rest for each (XQA of TensorRT-LLM)
SOCKET_CHIPS = 4  # of a host with eight on PCIe
QUICK_TILES = ("ampere", "ada", "tpu")  # where tiles of 8-bit products begin and end as soon as those of 16-bit ones
NETWORK_BYTES_PER_S, PCIE_BYTES_PER_S = 50e9, 63e9  # one way, per chip: a port of 400 Gbit/s; PCIe 5.0 x16


def costs_row(
    shape: Shape,
    chip: ServingChip,
    precision: Precision,
    layout: ReplicaLayout,
    engine: Engine,
    calibration: Calibration,
) -> Row:
    """The coefficients of a step, in the order of COLUMNS."""
    cost = _Costs(shape, chip, precision, layout, engine, calibration)
    cells = cost.products() | cost.experts() | cost.attention() | cost.links() | cost.fixed()
    return np.array([cells.get(name, 1.0 if name == "reduce_half" else 0.0) for name in COLUMNS])


def largest_graph(engine: Engine) -> float:
    """Sequences of the largest graph, where decode steps are filled up to the next; 0: they are not."""
    return float(engine.graph_sequences or MOST_SEQUENCES) if engine.pads else 0.0


def request_s(engine: Engine, prompt_tokens: float, calibration: Calibration) -> float:
    """Seconds from a client's request to the engine's queue and back: network, front end, tokeniser."""
    fixed, token = calibration[f"{engine.name}.request_us"], calibration[f"{engine.name}.request_token_us"]
    return (fixed + token * prompt_tokens) * 1e-6


def _both(one_s: float, other_s: float, power: float) -> float:
    """Seconds of two things that overlap: a smooth maximum, the nearer to the longer the higher the power."""
    return float((one_s**power + other_s**power) ** (1.0 / power))


class _Costs:
    """The parts of a row; each method gives some of its cells."""

    def __init__(
        self,
        shape: Shape,
        chip: ServingChip,
        precision: Precision,
        layout: ReplicaLayout,
        engine: Engine,
        constants: Calibration,
    ) -> None:
        self.shape, self.chip, self.precision, self.layout = shape, chip, precision, layout
        self.engine, self.constants, self.group = engine, constants, chip.kernels

    def _constant(self, name: str) -> float:
        return self.constants[f"{self.group}.{name}"]

    def _era(self, name: str) -> float:
        return self.constants[f"{self.engine.name}.{name}"]

    def rate_flop_per_s(self, weights: WeightFormat, kernel: str = "gemm") -> float:
        """Products' sustained rate: the best peak that the chip has for the format, times what kernels reach of it."""
        names = FORMATS[weights].peaks
        if weights == "mxfp4" and self.chip.fp4_flop_per_s:
            names = ("fp8",)  # fp8 activations
        for name in names:
            if peak := self.chip.peak_flop_per_s(name):
                return peak * self._constant(f"{kernel}.{self._kind(weights, name)}") * self._era("gemm")
        raise ValueError(f"{self.chip.name} has no cores for {weights}; callers check")

    def _kind(self, weights: WeightFormat, peak: str) -> str:
        """Which constant a format's products have on the cores that they run on."""
        if (weights, peak) in (("fp8-block", "fp8"), ("nvfp4", "fp4")):
            return weights
        return peak

    def chain_s(self, weights: WeightFormat) -> float:
        """Seconds of the serial loop over the inner dimension, an element."""
        name = "bf16" if FORMATS[weights].peaks == ("bf16",) else "low"
        return self.constants[f"chain.{name}"] * 1e-9

    def tile_elements(self, weights: WeightFormat) -> float:
        """Elements of the inner dimension in whose time a tile of a product is begun and written."""
        low = FORMATS[weights].peaks[0] != "bf16" and self.group not in QUICK_TILES
        return self.constants["tile.low" if low else "tile.bf16"]

    def _product(self, name: str, weights: WeightFormat, count: float, inner: float, outer: float) -> dict[str, float]:
        """`count` products of inner x outer weights on this rank."""
        form, memory = FORMATS[weights], self.chip.memory_bytes_per_s * self._constant("stream")
        edge = self.tile_elements(weights)
        return {
            f"{name}_compute": 2.0 * count * (inner + edge) * outer / self.rate_flop_per_s(weights),
            f"{name}_chain": count * inner * self.chain_s(weights),
            f"{name}_activations": count * (inner * form.activation_bytes + 2.0 * outer) / memory,
            f"{name}_weights": count * inner * outer * form.weight_bytes / memory,
        }

    def products(self) -> dict[str, float]:
        """Projections of attention, plain MLPs and shared experts, output layer."""
        s, tp = self.shape, self.layout.tp
        attention, mlp = self.precision.projections, self.precision.weights
        if mlp == "mxfp4":
            mlp = "bf16"  # only routed experts are in mxfp4 (gpt-oss model card)
        linear, plain = s.linear_layers, s.layers - s.linear_layers
        if s.kv_rank:
            queries = s.heads / tp * (s.nope_dim + s.rope_dim)
            weights = (
                (s.hidden * s.q_rank + s.q_rank * queries if s.q_rank else s.hidden * queries)
                + s.hidden * (s.kv_rank + s.rope_dim)  # on every rank
                + s.kv_rank * s.heads / tp * (s.nope_dim + s.head_dim)  # absorbed into queries and outputs
            )
        else:
            wide = (s.heads + 2.0 * max(s.kv_heads, tp)) * s.head_dim / tp
            weights = (plain * s.hidden * wide + linear * 5.0 * s.hidden**2 / tp) / s.layers
        inner = s.heads * s.head_dim / tp
        out = (plain * inner + linear * 2.0 * s.hidden / tp) / s.layers
        width = ((s.layers - s.expert_layers) * s.ffn + s.expert_layers * s.shared_ffn) / s.layers / tp
        gate = s.matrices - 1.0
        return (
            self._product("qkv", attention, s.layers, s.hidden, weights / s.hidden)
            | self._product("out", attention, s.layers, out, s.hidden)
            | (self._product("up", mlp, s.layers, s.hidden, gate * width) if width else {})
            | (self._product("down", mlp, s.layers, width, s.hidden) if width else {})
            | self._product("head", "bf16", 1.0, s.hidden, s.vocab / tp)
        )

    def experts(self) -> dict[str, float]:
        """Routed experts on the average rank."""
        s, lay = self.shape, self.layout
        if not s.experts:
            return {}
        weights = self.precision.weights
        form = FORMATS[weights]
        local = s.experts / lay.ep  # experts of a rank
        width = s.expert_ffn / lay.expert_tp  # of one, on this rank
        size = s.matrices * s.hidden * width  # its weights
        share = s.experts_per_token / lay.tp  # of a token's experts that this rank computes, for each token of its own
        own = self.constants[f"{self.engine.experts}.experts"] if self.engine.experts else 1.0
        memory = self.chip.memory_bytes_per_s * self._constant("expert_stream") * own
        kind = self._expert_kind()
        if kind in STREAMS:
            memory *= self.constants[f"expert_stream.{kind}"]
        rate = self.rate_flop_per_s(weights, "experts") * own
        edged = size + self.tile_elements(weights) * ((s.matrices - 1.0) * width + s.hidden)
        passes = self.constants["moe.passes"]
        if kind in EXPANDED:  # to 16 bits, on the way
            rate *= self.constants[f"expert_rate.{kind}"]
            passes *= self.constants["expanded.passes"]
        moved = share * lay.expert_tp * (8.0 * s.hidden + 12.0 * width) * passes  # by each chip of an expert
        return {
            "experts": s.experts,
            "experts_per_token": s.experts_per_token,
            "expert_compute": 2.0 * s.expert_layers * share * edged * lay.expert_tp / rate,
            "expert_chain": s.expert_layers * (s.hidden + width) * self.chain_s(weights),
            "expert_pad": 2.0 * s.expert_layers * local * edged * self.constants["moe.pad_tokens"] / rate,
            "expert_activations": s.expert_layers * moved / self.chip.memory_bytes_per_s,
            "expert_weights": s.expert_layers * local * size * form.weight_bytes / memory,
            "expert_spread": float(lay.attention_dp),
        }

    def _expert_kind(self) -> str:
        """How kernels read experts: 4 bits expanded to 16 on the way, scaled by block, on fp4 cores, or plainly."""
        weights = self.precision.weights
        if weights == "mxfp4" and not self.chip.fp4_flop_per_s:
            return "mxfp4"
        return {"int4-weights": "int4", "fp8-block": "block", "nvfp4": "fp4", "mxfp4": "fp4"}.get(weights, "plain")

    def attention(self) -> dict[str, float]:
        """Prefill pairs, cached tokens, states of linear layers, element-wise passes."""
        s, tp, memory = self.shape, self.layout.tp, self.chip.memory_bytes_per_s
        kv_bytes = KV_BYTES[self.precision.kv]
        rate = self.chip.bf16_flop_per_s * self._constant("attention")
        heads = s.heads / tp
        pair = 2.0 * heads * (s.nope_dim + s.rope_dim + s.head_dim if s.kv_rank else 2.0 * s.head_dim) / rate
        if s.kv_rank:
            read = (s.kv_rank + s.rope_dim) * kv_bytes / (memory * self._constant("latent"))
            flop = 2.0 * heads * (2.0 * s.kv_rank + s.rope_dim)
            cached = _both(read, flop / (self.chip.bf16_flop_per_s * self._constant("latent_rate")), TILES_POWER)
        else:
            held = max(s.kv_heads / tp, 1.0)
            cached = 2.0 * held * s.head_dim * self._element_s(self.engine.beams * heads / held, kv_bytes)
        state = 2.0 * 2.0 * LINEAR_STATE_WIDTH * s.hidden / tp / (memory * self._constant("kv"))  # read and written
        # element-wise: the hidden state is whole on every rank, the MLP's inner state is shared out
        width = ((s.layers - s.expert_layers) * s.ffn + s.expert_layers * s.shared_ffn) / s.layers / tp
        touched = s.layers * 2.0 * (LAYER_PASSES * s.hidden + 3.0 * width + 2.0 * heads * s.head_dim)
        far, near = s.full_layers, s.window_layers
        if s.sparse_tokens:  # the indexer looks at every token, attention at those that it picks
            far, near = INDEX_RATIO * s.full_layers, s.full_layers
        slot = self.engine.slot_tokens
        return {
            "pair": far * pair,
            "window_pair": near * pair,
            "window_tokens": s.sparse_tokens or s.window_tokens,
            "kv": 0.0 if slot else far * cached,
            "window_kv": 0.0 if slot else near * cached,
            "state": s.linear_layers * state + slot * (far + near) * cached,
            "token": self._era("passes") * touched / (memory * self._constant("stream")),
            # every rank samples from the whole vocabulary, in 32 bits
            "logits": self.constants[f"logits.{self.engine.runtime}"] * 4.0 * s.vocab / memory,
        }

    def _element_s(self, group: float, kv_bytes: float) -> float:
        """Seconds of an element of the cache: it is read, and worked on by the query heads of its group."""
        fewest, most = self.engine.groups
        plain = kv_bytes / self.chip.memory_bytes_per_s
        read = plain / self._constant("kv")
        if self.engine.beams > 1 or fewest <= group <= most:
            return _both(read, plain * group / GROUP_HEADS / self._constant("kv_group"), TILES_POWER)
        rate = self.chip.bf16_flop_per_s * self.constants["ungrouped.rate"]  # not on matrix cores
        return _both(read, 2.0 * (group + 1.0) / rate, WARPS_POWER)  # converted once, then a product for each head

    def links(self) -> dict[str, float]:
        """All-reduces of tensor parallelism; dispatch and combine of experts under attention data parallelism."""
        s, lay, link = self.shape, self.layout, self.chip.link
        if lay.tp * lay.attention_dp > self.chip.link_chip_count:
            link = "network" if link.startswith(("nvlink", "ici")) else "pcie5"
        latency_ratio, rate_ratio = self._bus(link)
        rate = self._link_bytes_per_s(link) * self.constants[f"{link}.ratio"] * rate_ratio
        alpha = self.constants[f"{link}.latency_us"] * 1e-6 * latency_ratio
        cells: dict[str, float] = {}
        if lay.tp > 1:
            count = 2.0 * s.layers - (s.expert_layers if lay.attention_dp > 1 else 0.0)
            small = s.layers * s.joint_norms  # of a number a token
            grow = 0.5 + 0.25 * np.log2(lay.tp)  # latency is quoted for four ranks
            cells["reduce_floor"] = (count + small) * alpha * grow * self._era("reduce")
            cells["reduce_token"] = count * 2.0 * (lay.tp - 1.0) / lay.tp * 2.0 * s.hidden / rate
            # a one-shot all-reduce reads what every other rank has
            cells["reduce_ramp"] = count * alpha * (lay.tp - 1.0) / 3.0 * self.constants["reduce.ramp"]
            if self.engine.direct and lay.tp == 2 and link.startswith("pcie"):
                cells["reduce_ramp"] = count * self.constants["pcie.direct_us"] * 1e-6
            cells["reduce_half"] = REDUCE_HALF_BYTES / (2.0 * s.hidden)
        if lay.attention_dp > 1 and s.experts:
            act = FORMATS[self.precision.weights].activation_bytes
            copies = min(s.experts_per_token, lay.ep) * (lay.ep - 1.0) / lay.ep / lay.tp
            cells["exchange_floor"] = 2.0 * s.expert_layers * alpha * self.constants["exchange.latency_ratio"]
            cells["exchange_token"] = s.expert_layers * copies * s.hidden * (act + 2.0) / rate
        if lay.pp > 1:
            cells["exchange_floor"] = cells.get("exchange_floor", 0.0) + lay.pp * alpha
            cells["exchange_token"] = cells.get("exchange_token", 0.0) + lay.pp * 2.0 * s.hidden / rate
        return cells

    def _bus(self, link: str) -> tuple[float, float]:
        """Latency and rate over PCIe in the hosts of such chips, over the link's; 1 of other links."""
        if not link.startswith("pcie"):
            return 1.0, 1.0
        across = self._constant("across_rate") if self.layout.tp > SOCKET_CHIPS else 1.0
        return self._constant("bus_latency"), self._constant("bus_rate") * across

    def _link_bytes_per_s(self, link: str) -> float:
        """One way, per chip."""
        if link == "network":
            return NETWORK_BYTES_PER_S
        return self.chip.link_bytes_per_s if link == self.chip.link else PCIE_BYTES_PER_S

    def _expert_floor(self) -> float:
        """Fixed time of an expert layer over that of plain formats."""
        kind = self._expert_kind() if self.shape.experts else "plain"
        return 1.0 if kind == "plain" else self.constants[f"expert_layer.{kind}"]

    def _quantise_us(self) -> float:
        """Microseconds a layer in which activations are brought to the format of its products."""
        found = 0.0
        for weights in (self.precision.projections, self.precision.weights):
            if name := QUANTISES.get(weights):
                found += 0.5 * self.constants[f"quantise.{name}_us"]
        return found

    def fixed(self) -> dict[str, float]:
        """Kernels' fixed time, the host, the pipeline."""
        s = self.shape
        layer = self._constant("layer_us") + self._era("layer_us") + self._quantise_us()
        kinds = (
            s.expert_layers * self._constant("expert_layer_us") * self._expert_floor()  # routing, sorting
            + s.layers * self._constant("latent_layer_us") * (s.kv_rank > 0)  # more projections
            + s.layers * self.constants["norms.layer_us"] * s.head_norms
            + s.layers * self.constants["sparse.layer_us"] * (s.sparse_tokens > 0)  # the indexer and its choice
        )
        dp = self.layout.attention_dp
        return {
            "layers": 1e-6 * (s.layers * layer + kinds),
            "eager": 1e-6
            * (
                s.layers * self._era("eager_layer_us") * (1.0 + NORM_LAUNCHES * s.head_norms)
                + s.expert_layers * self._era("eager_expert_us")
            ),
            "replays": float(self.engine.graphs),
            "host": 1e-6 * self._era("host_us"),
            "host_sequence": 1e-6 * self._era("host_sequence_us"),
            "host_token": 1e-6 * self._era("host_token_us"),
            "beams": float(self.engine.beams),
            "reread": (self.engine.beams - 1.0) * 0.5 * BEAM_TILE_TOKENS,
            "ranks": 1.0,
            "stages": float(self.layout.pp),
            "pads": largest_graph(self.engine),
            "straggler": 1.0 + self.constants["dp.straggler"] * np.log2(dp),
            "prefill_straggler": 1.0 + self.constants["dp.prefill_straggler"] * np.log2(dp),
        }
