"""Serving engines: which run on a chip, and the commands that start a replica."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.chips import Chip
from gpuyard.catalog.models import Model
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.plan.command_line import ShellWord, command_line
from gpuyard.plan.inference.replica import Replica
from gpuyard.plan.service import EngineCommand
from gpuyard.plan.serving_checkpoint import LoadedCheckpoint, checkpoint_for

OWN_CHECKPOINT = ShellWord("$CHECKPOINT")  # of a format that nobody publishes
HEAD = ShellWord("$HEAD")  # address of a replica's first machine
Role = Literal["both", "prefill", "decode"]
CONTEXT_STEP_TOKENS = 256  # the context length is rounded up to a multiple of this


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A serving engine that gpuyard can start."""

    name: str
    label: str
    models: str  # its name in the serving performance model
    kinds: tuple[str, ...]
    source: str
    date: datetime.date
    vendors: tuple[str, ...] = ()  # empty: any
    without: tuple[str, ...] = ()  # unsupported chips
    only: tuple[str, ...] = ()  # the only supported chips; empty: any
    formats: tuple[str, ...] = ()  # weight dtypes; empty: all of the performance model
    native_formats: tuple[str, ...] = ()  # only on chips with fp8 units
    experts: bool = True  # supports MoE models
    online: tuple[str, ...] = ()  # formats that it makes of 16-bit weights while it loads them
    # Attention data parallelism: each rank may be split by TP, or holds attention whole.
    attention_dp: Literal["split", "whole", "none"] = "split"
    note: str = ""

    def runs_on(self, chip: Chip) -> bool:
        return (
            chip.kind in self.kinds
            and (not self.vendors or chip.vendor in self.vendors)
            and chip.name not in self.without
            and (not self.only or chip.name in self.only)
        )

    def serves(self, model: Model, weights: str, chip: Chip) -> bool:
        """Return True if it serves the model with this weight dtype on the chip."""
        is_moe = model.transformer is not None and model.transformer.moe is not None
        emulated = weights in self.native_formats and not chip.dense.fp8_flop_per_s
        known = not self.formats or weights in self.formats
        return (self.experts or not is_moe) and known and not emulated

    def runs_layout(self, layout: ReplicaLayout) -> bool:
        """Return True if its command line can express the layout."""
        if layout.attention_dp == 1 or self.attention_dp == "split":
            return True
        return self.attention_dp == "whole" and layout.tp == 1

    def checkpoint(
        self, model: Model, weights: str, checkpoints: Sequence[Checkpoint]
    ) -> LoadedCheckpoint | None:
        """Return what it loads for the format, or None if there is nothing to load."""
        return checkpoint_for(model, weights, self.name, self.online, checkpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    engines: tuple[Server, ...]


@functools.cache
def read_servers() -> tuple[Server, ...]:
    """Return the known engines in order of preference."""
    path = Path(__file__).parent / "data" / "engines.toml"
    return decode(read_file(path).root, _File, Keys.SUFFIXED).engines


def servers_for(chip: Chip) -> tuple[Server, ...]:
    """Return the engines that run on a chip; for TPUs only the first, vLLM before JetStream."""
    servers = tuple(server for server in read_servers() if server.runs_on(chip))
    return servers[:1] if chip.kind == "tpu" else servers


def server_of(replica: Replica) -> Server:
    """Return the engine of a replica."""
    return next(server for server in read_servers() if server.models == replica.engine.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandInputs:
    replica: Replica
    loaded: LoadedCheckpoint
    context_tokens: int
    machines: int
    prefix_caching: bool
    half: bool  # the chip has fp16 but no bf16
    role: Role


def with_start_commands(
    replica: Replica,
    model: Model,
    chip: Chip,
    context_tokens: float,
    machines: int,
    prefix_caching: bool,
    role: Role = "both",
    checkpoints: Sequence[Checkpoint] = (),
) -> EngineCommand:
    """Return the engine with the commands of one replica, one per machine.

    Prefill and decode replicas transfer KV caches with NIXL.
    """
    server = server_of(replica)
    longest = CONTEXT_STEP_TOKENS * -(-int(context_tokens) // CONTEXT_STEP_TOKENS)
    if model.transformer and model.transformer.max_context_tokens:
        longest = min(longest, model.transformer.max_context_tokens)
    # A configuration that was named by hand may have no checkpoint: then the user's own is loaded.
    loaded = server.checkpoint(model, replica.precision.weights, checkpoints)
    loaded = loaded or LoadedCheckpoint(repository=OWN_CHECKPOINT)
    inputs = _CommandInputs(
        replica=replica,
        loaded=loaded,
        context_tokens=longest,
        machines=machines,
        prefix_caching=prefix_caching,
        half=chip.dense.bf16_flop_per_s is None,
        role=role,
    )
    return EngineCommand(
        name=server.name,
        label=server.label,
        command=COMMANDS[server.name](inputs),
        note=_note(replica, server, loaded),
        checkpoint=loaded.repository,
        gated=loaded.gated,
        load_bytes=_load_bytes(replica, model, loaded),
    )


def _model_word(loaded: LoadedCheckpoint) -> str:
    """The model as a word: a name of whatever spelling, or the variable of the user's own."""
    return OWN_CHECKPOINT if loaded.repository == OWN_CHECKPOINT else loaded.repository


def _load_bytes(replica: Replica, model: Model, loaded: LoadedCheckpoint) -> float:
    """Bytes of the checkpoint: 16 bits per weight where the engine quantises while loading."""
    if loaded.online or replica.precision.weights == "bf16":
        return 2.0 * model.parameters_count
    return replica.room.weight_bytes * replica.layout.chips / replica.layout.attention_dp


def _note(replica: Replica, server: Server, loaded: LoadedCheckpoint) -> str:
    weights = replica.precision.weights
    online = f"loads 16-bit weights and quantises them to {weights} while loading"
    own = f"no published checkpoint in {weights}: quantise your own"
    missing = loaded.repository == OWN_CHECKPOINT
    parts = (server.note, online if loaded.online else "", own if missing else "")
    return "; ".join(part for part in parts if part)


def _vllm(inputs: _CommandInputs) -> tuple[str, ...]:
    replica, layout = inputs.replica, inputs.replica.layout
    disaggregated = inputs.role != "both"  # https://docs.vllm.ai: features/nixl_connector_usage
    kv_role = "kv_producer" if inputs.role == "prefill" else "kv_consumer"
    nixl = json.dumps({"kv_connector": "NixlConnector", "kv_role": kv_role}, separators=(",", ":"))
    line = command_line(
        *([ShellWord("VLLM_NIXL_SIDE_CHANNEL_HOST=$ADDRESS")] if disaggregated else []),
        *("vllm", "serve", _model_word(inputs.loaded)),
        *("--tensor-parallel-size", layout.tp),
        *(("--pipeline-parallel-size", layout.pp) if layout.pp > 1 else ()),
        *(("--data-parallel-size", layout.attention_dp) if layout.attention_dp > 1 else ()),
        *(("--enable-expert-parallel",) if layout.ep > 1 else ()),
        *(("--dtype", "half") if inputs.half else ()),
        *(("--quantization", replica.precision.weights) if inputs.loaded.online else ()),
        *(("--kv-cache-dtype", "fp8") if replica.precision.kv == "fp8" else ()),
        *("--max-num-seqs", replica.limits.sequences),
        *("--max-num-batched-tokens", replica.limits.budget_tokens),
        *("--max-model-len", inputs.context_tokens),
        *("--gpu-memory-utilization", f"{replica.engine.memory_ratio:g}"),
        *(("--enable-prefix-caching",) if inputs.prefix_caching else ()),
        *(("--kv-transfer-config", nixl) if disaggregated else ()),
    )
    if inputs.machines == 1:
        return (line,)
    if layout.attention_dp > 1:
        local = layout.attention_dp // inputs.machines
        data_parallel = f"--data-parallel-size-local {local} --data-parallel-address {HEAD}"
        ranks = (
            f"--data-parallel-start-rank {rank * local} --headless"
            for rank in range(1, inputs.machines)
        )
        return (f"{line} {data_parallel}", *(f"{line} {data_parallel} {rank}" for rank in ranks))
    multi_node = f"--nnodes {inputs.machines} --master-addr {HEAD}"
    others = (
        f"{line} {multi_node} --node-rank {rank} --headless" for rank in range(1, inputs.machines)
    )
    return (f"{line} {multi_node} --node-rank 0", *others)


def _sglang(inputs: _CommandInputs) -> tuple[str, ...]:
    """https://docs.sglang.io; with DP attention, --tp-size counts all ranks."""
    replica, layout = inputs.replica, inputs.replica.layout
    quantised: str = replica.precision.weights if inputs.loaded.online else ""
    if inputs.loaded.repository.startswith("nvidia/"):  # Model Optimizer's format needs its name
        quantised = {"fp8": "modelopt", "nvfp4": "modelopt_fp4"}[replica.precision.weights]
    transfer = ("--disaggregation-transfer-backend", "nixl")
    line = command_line(
        *("python", "-m", "sglang.launch_server", "--model-path", _model_word(inputs.loaded)),
        *("--tp-size", layout.tp * layout.attention_dp),
        *(("--pp-size", layout.pp) if layout.pp > 1 else ()),
        *(
            ("--dp-size", layout.attention_dp, "--enable-dp-attention")
            if layout.attention_dp > 1
            else ()
        ),
        *(("--ep-size", layout.ep) if layout.ep > 1 else ()),
        *(("--dtype", "half") if inputs.half else ()),
        *(("--quantization", quantised) if quantised else ()),
        *(("--kv-cache-dtype", "fp8_e4m3") if replica.precision.kv == "fp8" else ()),
        *("--max-running-requests", replica.limits.sequences * layout.attention_dp),
        *("--chunked-prefill-size", replica.limits.budget_tokens),
        *("--context-length", inputs.context_tokens),
        *("--mem-fraction-static", f"{replica.engine.memory_ratio:g}"),
        # https://docs.sglang.io: advanced_features/pd_disaggregation
        *(("--disaggregation-mode", inputs.role, *transfer) if inputs.role != "both" else ()),
    )
    if inputs.machines == 1:
        return (line,)
    multi_node = f"--nnodes {inputs.machines} --dist-init-addr {HEAD}:20000"
    return tuple(f"{line} {multi_node} --node-rank {rank}" for rank in range(inputs.machines))


# https://nvidia.github.io/TensorRT-LLM: features/disagg-serving; the buffer must hold the longest
# prompt.
_TRANSCEIVER = "cache_transceiver_config: {{backend: NIXL, max_tokens_in_buffer: {tokens}}}"


def _tensorrt_llm(inputs: _CommandInputs) -> tuple[str, ...]:
    """https://nvidia.github.io/TensorRT-LLM; options without a flag go into a YAML file."""
    replica, layout = inputs.replica, inputs.replica.layout
    extra = [
        *(["enable_attention_dp: true"] if layout.attention_dp > 1 else []),
        *(["kv_cache_config: {dtype: fp8}"] if replica.precision.kv == "fp8" else []),
        *(["disable_overlap_scheduler: true"] if inputs.role == "prefill" else []),
        *([_TRANSCEIVER.format(tokens=inputs.context_tokens)] if inputs.role != "both" else []),
    ]
    file = "extra.yaml" if inputs.role == "both" else f"{inputs.role}.yaml"
    line = command_line(
        *("trtllm-serve", _model_word(inputs.loaded)),
        *("--tp_size", layout.tp * layout.attention_dp),
        *(("--pp_size", layout.pp) if layout.pp > 1 else ()),
        *(("--ep_size", layout.ep) if layout.ep > 1 else ()),
        *("--max_batch_size", replica.limits.sequences),
        *("--max_num_tokens", replica.limits.budget_tokens),
        *("--max_seq_len", inputs.context_tokens),
        *("--kv_cache_free_gpu_memory_fraction", f"{replica.engine.memory_ratio:g}"),
        *(("--extra_llm_api_options", file) if extra else ()),
    )
    if inputs.machines > 1:
        srun = f"srun -N {inputs.machines} --ntasks {layout.chips} --mpi=pmix"
        line = f"{srun} trtllm-llmapi-launch {line}"
    if not extra:
        return (line,)
    entries = command_line("printf", r"%s\n", *extra)
    return (f"{entries} > {file} && {line}",)


def _vllm_tpu(inputs: _CommandInputs) -> tuple[str, ...]:
    """https://docs.vllm.ai/projects/tpu; a slice of several hosts runs under Ray."""
    line = _vllm(replace(inputs, machines=1))[0]
    return (line if inputs.machines == 1 else f"{line} --distributed-executor-backend ray",)


def _jetstream(inputs: _CommandInputs) -> tuple[str, ...]:
    """MaxText engine behind JetStream; $CHECKPOINT is the model converted to MaxText."""
    replica = inputs.replica
    chips = replica.layout.chips
    name = inputs.loaded.repository.rpartition("/")[2].lower()
    line = command_line(
        *("python", "-m", "MaxText.maxengine_server", "src/MaxText/configs/base.yml"),
        *(f"model_name={name}", ShellWord(f"load_parameters_path={OWN_CHECKPOINT}")),
        *(f"ici_tensor_parallelism={chips}", "ici_fsdp_parallelism=1"),
        *("scan_layers=false", "weight_dtype=bfloat16"),
        f"per_device_batch_size={max(1, replica.limits.sequences // chips)}",
        f"max_target_length={inputs.context_tokens}",
        f"max_prefill_predict_length={inputs.context_tokens // 2}",
        *(
            ("quantization=int8", "checkpoint_is_quantized=true")
            if replica.precision.weights == "int8"
            else ()
        ),
    )
    return (line,)


def _vllm_cpu(inputs: _CommandInputs) -> tuple[str, ...]:
    """vLLM for CPUs; the size of its KV cache is given in GiB."""
    gib = max(1, int(inputs.replica.room.cache_bytes / 2**30))
    line = _vllm(replace(inputs, machines=1))[0].rpartition(" --gpu-memory-utilization")[0]
    return (f"VLLM_CPU_KVCACHE_SPACE={gib} VLLM_CPU_OMP_THREADS_BIND=auto {line}",)


COMMANDS: dict[str, Callable[[_CommandInputs], tuple[str, ...]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "vllm-tpu": _vllm_tpu,
    "jetstream": _jetstream,
    "vllm-cpu": _vllm_cpu,
}
