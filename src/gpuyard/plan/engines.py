"""Serving engines: which run on a chip, and the command that starts one replica."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.catalog import Chip, Model
from gpuyard.document import Keys, decode, read_file
from gpuyard.plan.inference.replica import Replica
from gpuyard.plan.service import Engine

__all__ = ["Server", "read_servers", "server_of", "servers_for", "started"]

HEAD = "$HEAD"  # the address of a replica's first machine
Role = Literal["both", "prefill", "decode"]
COMMAND_WIDTH = 8  # tokens of context are rounded up to a multiple of 2**this


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server program."""

    name: str
    label: str
    models: str  # the entry of the serving model that stands for it
    kinds: tuple[str, ...]
    source: str
    date: datetime.date
    vendors: tuple[str, ...] = ()  # none: any
    without: tuple[str, ...] = ()  # chips that it does not run on
    only: tuple[str, ...] = ()  # chips that it runs on, where they are few
    formats: tuple[str, ...] = ()  # of weights; none: all of the serving model's
    experts: bool = True  # it serves mixtures of experts
    note: str = ""

    def runs_on(self, chip: Chip) -> bool:
        """True when it runs on the chip."""
        return (
            chip.kind in self.kinds
            and (not self.vendors or chip.vendor in self.vendors)
            and chip.name not in self.without
            and (not self.only or chip.name in self.only)
        )

    def serves(self, model: Model, weights: str) -> bool:
        """True when it serves the model in that format."""
        mixed = model.transformer is not None and model.transformer.moe is not None
        return (self.experts or not mixed) and (not self.formats or weights in self.formats)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The data file."""

    engines: tuple[Server, ...]


@functools.cache
def read_servers() -> tuple[Server, ...]:
    """The servers that are known, the one to prefer first."""
    path = Path(__file__).parent / "data" / "engines.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).engines


def servers_for(chip: Chip) -> tuple[Server, ...]:
    """The servers that run on a chip; JetStream only where vLLM does not, which Google's pages now name first."""
    found = tuple(server for server in read_servers() if server.runs_on(chip))
    return found[:1] if chip.kind == "tpu" else found


def server_of(replica: Replica) -> Server:
    """The server of a replica."""
    return next(server for server in read_servers() if server.models == replica.engine.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """What a command has to say."""

    replica: Replica
    checkpoint: str
    context_tokens: int
    machines: int
    hit: bool
    half: bool  # the chip has fp16 and no bf16
    role: Role


def started(
    replica: Replica,
    model: Model,
    chip: Chip,
    context_tokens: float,
    machines: int,
    prefix_caching: bool,
    role: Role = "both",
) -> Engine:
    """The engine with the command lines of one replica, one for each of its machines.

    role: prefill and decode replicas hand caches over by NIXL.
    """
    server = server_of(replica)
    step = 2**COMMAND_WIDTH
    longest = step * -(-int(context_tokens) // step)
    if model.transformer and model.transformer.max_context_tokens:
        longest = min(longest, model.transformer.max_context_tokens)
    ask = _Ask(
        replica=replica,
        checkpoint=_checkpoint(model),
        context_tokens=longest,
        machines=machines,
        hit=prefix_caching,
        half=chip.dense.bf16_flop_per_s is None,
        role=role,
    )  # fmt: skip
    return Engine(name=server.name, label=server.label, command=COMMANDS[server.name](ask), note=_note(replica, server))


def _checkpoint(model: Model) -> str:
    """The name that engines load: the one on a hub where there is one."""
    return next((alias for alias in model.aliases if "/" in alias), model.name)


def _note(replica: Replica, server: Server) -> str:
    """What has to be at hand before it starts."""
    needs = {
        "nvfp4": "a checkpoint quantised to NVFP4 (NVIDIA ModelOpt)",
        "int4-weights": "a checkpoint quantised to 4 bits (AWQ or GPTQ)",
        "int8": "a checkpoint quantised to 8-bit weights and activations (W8A8)",
        "fp8": "a checkpoint quantised to FP8" if server.name == "tensorrt-llm" else "",
    }
    need = needs.get(replica.precision.weights, "")
    return "; ".join(part for part in (server.note, f"needs {need}" if need else "") if part)


def _vllm(ask: _Ask) -> tuple[str, ...]:
    """https://docs.vllm.ai: `vllm serve`."""
    replica, lay = ask.replica, ask.replica.layout
    quantised = {"fp8": "fp8", "nvfp4": "modelopt_fp4", "int4-weights": "awq_marlin"}.get(replica.precision.weights)
    apart = ask.role != "both"  # https://docs.vllm.ai: features/nixl_connector_usage
    kv_role = "kv_producer" if ask.role == "prefill" else "kv_consumer"
    words = [
        *(["VLLM_NIXL_SIDE_CHANNEL_HOST=$ADDRESS"] if apart else []),
        f"vllm serve {ask.checkpoint}",
        f"--tensor-parallel-size {lay.tp}",
        *([f"--pipeline-parallel-size {lay.pp}"] if lay.pp > 1 else []),
        *([f"--data-parallel-size {lay.attention_dp}"] if lay.attention_dp > 1 else []),
        *(["--enable-expert-parallel"] if lay.ep > 1 else []),
        *(["--dtype half"] if ask.half else []),
        *([f"--quantization {quantised}"] if quantised else []),
        *(["--kv-cache-dtype fp8"] if replica.precision.kv == "fp8" else []),
        f"--max-num-seqs {replica.limits.sequences}",
        f"--max-num-batched-tokens {replica.limits.budget_tokens}",
        f"--max-model-len {ask.context_tokens}",
        f"--gpu-memory-utilization {replica.engine.memory_ratio:g}",
        *(["--enable-prefix-caching"] if ask.hit else []),
        *([f'--kv-transfer-config \'{{"kv_connector":"NixlConnector","kv_role":"{kv_role}"}}\''] if apart else []),
    ]
    line = " ".join(words)
    if ask.machines == 1:
        return (line,)
    if lay.attention_dp > 1:
        local = lay.attention_dp // ask.machines
        spread = f"--data-parallel-size-local {local} --data-parallel-address {HEAD}"
        ranks = (f"--data-parallel-start-rank {rank * local} --headless" for rank in range(1, ask.machines))
        return (f"{line} {spread}", *(f"{line} {spread} {rank}" for rank in ranks))
    joined = f"--nnodes {ask.machines} --master-addr {HEAD}"
    others = (f"{line} {joined} --node-rank {rank} --headless" for rank in range(1, ask.machines))
    return (f"{line} {joined} --node-rank 0", *others)


def _sglang(ask: _Ask) -> tuple[str, ...]:
    """https://docs.sglang.io: `python -m sglang.launch_server`; with DP attention, --tp-size counts all its ranks."""
    replica, lay = ask.replica, ask.replica.layout
    quantised = {"fp8": "fp8", "nvfp4": "modelopt_fp4", "int4-weights": "awq_marlin"}.get(replica.precision.weights)
    words = [
        f"python -m sglang.launch_server --model-path {ask.checkpoint}",
        f"--tp-size {lay.tp * lay.attention_dp}",
        *([f"--pp-size {lay.pp}"] if lay.pp > 1 else []),
        *([f"--dp-size {lay.attention_dp} --enable-dp-attention"] if lay.attention_dp > 1 else []),
        *([f"--ep-size {lay.ep}"] if lay.ep > 1 else []),
        *(["--dtype half"] if ask.half else []),
        *([f"--quantization {quantised}"] if quantised else []),
        *(["--kv-cache-dtype fp8_e4m3"] if replica.precision.kv == "fp8" else []),
        f"--max-running-requests {replica.limits.sequences * lay.attention_dp}",
        f"--chunked-prefill-size {replica.limits.budget_tokens}",
        f"--context-length {ask.context_tokens}",
        f"--mem-fraction-static {replica.engine.memory_ratio:g}",
        *(
            [f"--disaggregation-mode {ask.role} --disaggregation-transfer-backend nixl"] if ask.role != "both" else []
        ),  # https://docs.sglang.io: advanced_features/pd_disaggregation
    ]
    line = " ".join(words)
    if ask.machines == 1:
        return (line,)
    joined = f"--nnodes {ask.machines} --dist-init-addr {HEAD}:20000"
    return tuple(f"{line} {joined} --node-rank {rank}" for rank in range(ask.machines))


# https://nvidia.github.io/TensorRT-LLM: features/disagg-serving; the buffer holds the longest prompt
_TRANSCEIVER = "cache_transceiver_config: {{backend: NIXL, max_tokens_in_buffer: {tokens}}}"


def _tensorrt_llm(ask: _Ask) -> tuple[str, ...]:
    """https://nvidia.github.io/TensorRT-LLM: `trtllm-serve`; what has no flag goes into a YAML file."""
    replica, lay = ask.replica, ask.replica.layout
    extra = [
        *(["enable_attention_dp: true"] if lay.attention_dp > 1 else []),
        *(["kv_cache_config: {dtype: fp8}"] if replica.precision.kv == "fp8" else []),
        *(["disable_overlap_scheduler: true"] if ask.role == "prefill" else []),
        *([_TRANSCEIVER.format(tokens=ask.context_tokens)] if ask.role != "both" else []),
    ]
    file = "extra.yaml" if ask.role == "both" else f"{ask.role}.yaml"
    words = [
        f"trtllm-serve {ask.checkpoint}",
        f"--tp_size {lay.tp * lay.attention_dp}",
        *([f"--pp_size {lay.pp}"] if lay.pp > 1 else []),
        *([f"--ep_size {lay.ep}"] if lay.ep > 1 else []),
        f"--max_batch_size {replica.limits.sequences}",
        f"--max_num_tokens {replica.limits.budget_tokens}",
        f"--max_seq_len {ask.context_tokens}",
        f"--kv_cache_free_gpu_memory_fraction {replica.engine.memory_ratio:g}",
        *([f"--extra_llm_api_options {file}"] if extra else []),
    ]
    line = " ".join(words)
    if ask.machines > 1:
        line = f"srun -N {ask.machines} --ntasks {lay.chips} --mpi=pmix trtllm-llmapi-launch {line}"
    if not extra:
        return (line,)
    quoted = " ".join(f"'{entry}'" for entry in extra)
    return (f"printf '%s\\n' {quoted} > {file} && {line}",)


def _vllm_tpu(ask: _Ask) -> tuple[str, ...]:
    """https://docs.vllm.ai/projects/tpu: the same server; a slice of several hosts runs it under Ray."""
    line = _vllm(replace(ask, machines=1))[0]
    return (line if ask.machines == 1 else f"{line} --distributed-executor-backend ray",)


def _jetstream(ask: _Ask) -> tuple[str, ...]:
    """MaxText's engine behind JetStream; $CHECKPOINT is the model converted to MaxText."""
    chips, replica = ask.replica.layout.chips, ask.replica
    words = [
        "python -m MaxText.maxengine_server src/MaxText/configs/base.yml",
        f"model_name={ask.checkpoint.rpartition('/')[2].lower()} load_parameters_path=$CHECKPOINT",
        f"ici_tensor_parallelism={chips} ici_fsdp_parallelism=1 scan_layers=false weight_dtype=bfloat16",
        f"per_device_batch_size={max(1, replica.limits.sequences // chips)}",
        f"max_target_length={ask.context_tokens} max_prefill_predict_length={ask.context_tokens // 2}",
        *(["quantization=int8 checkpoint_is_quantized=true"] if replica.precision.weights == "int8" else []),
    ]
    return (" ".join(words),)


def _vllm_cpu(ask: _Ask) -> tuple[str, ...]:
    """The same server built for CPUs; its cache is given in GiB, not as a share of memory."""
    gib = max(1, int(ask.replica.room.cache_bytes / 2**30))
    line = _vllm(replace(ask, machines=1))[0].rpartition(" --gpu-memory-utilization")[0]
    return (f"VLLM_CPU_KVCACHE_SPACE={gib} VLLM_CPU_OMP_THREADS_BIND=auto {line}",)


COMMANDS: dict[str, Callable[[_Ask], tuple[str, ...]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "vllm-tpu": _vllm_tpu,
    "jetstream": _jetstream,
    "vllm-cpu": _vllm_cpu,
}
