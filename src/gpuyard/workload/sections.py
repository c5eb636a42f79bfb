"""Sections of a workload file: data, training, traffic, graphics, HPC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import BYTES, COUNT, DURATION, RATE, RATIO, TOKENS
from gpuyard.workload.key_rules import INFERENCE, TRAINING, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The dataset that the work reads."""

    tokens: Annotated[
        int | None, TOKENS, Tasks(used=TRAINING), Doc("tokens in the dataset, per epoch")
    ] = None
    samples_count: Annotated[
        int | None, COUNT, Tasks(used=TRAINING), Doc("samples in the dataset, instead of tokens")
    ] = None
    sequence_tokens: Annotated[
        int | None, TOKENS, AtLeast(1), Tasks(used=TRAINING), Doc("sequence length in tokens")
    ] = None
    epochs: Annotated[float, Tasks(used=TRAINING), Doc("number of passes over the dataset")] = 1.0
    size_bytes: Annotated[float | None, BYTES, Doc("size on disk")] = None
    location: Annotated[str | None, Doc("gs://bucket/path, s3://bucket/path or a folder")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the model is trained."""

    method: Annotated[Literal["full", "lora", "qlora"], Doc("which weights are trained")] = "full"
    global_batch_count: Annotated[
        int | None,
        COUNT,
        AtLeast(1),
        Doc("samples per optimizer step over all machines; default: chosen automatically"),
    ] = None
    lora_rank: Annotated[
        int | None, AtLeast(1), Doc("rank of the adapters; required for lora and qlora")
    ] = None
    optimizer: Annotated[
        Literal["adamw", "adam", "sgd", "adafactor", "lion", "muon"],
        Doc("determines the memory of optimizer states"),
    ] = "adamw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests that a served model receives."""

    input_tokens: Annotated[
        float | None, TOKENS, AtLeast(1), Doc("mean prompt length in tokens")
    ] = None
    output_tokens: Annotated[
        float | None, TOKENS, AtLeast(0), Doc("mean output length in tokens")
    ] = None
    concurrency_count: Annotated[
        int | None,
        COUNT,
        AtLeast(1),
        Doc("concurrent requests; without a rate, a closed loop of this many users"),
    ] = None
    arrivals: Annotated[
        Literal["poisson", "steady", "burst"],
        Doc("arrival process: random, at fixed intervals, or all at once"),
    ] = "poisson"
    prefix_hit_ratio: Annotated[
        float,
        RATIO,
        AtLeast(0),
        Doc("prefix-cache hit ratio of prompt tokens"),
    ] = 0.0
    trace: Annotated[
        str | None,
        Doc(
            "CSV file with arrived_at, num_prefill_tokens and num_decode_tokens, "
            "relative to this file; replaces the keys above"
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphics:
    """Graphics: virtual workstations, frames to render, or video to transcode."""

    use: Annotated[
        Literal["virtual-workstation", "rendering", "video"], Doc("kind of graphics work")
    ]
    sessions_count: Annotated[
        int | None, COUNT, AtLeast(1), Doc("concurrent users or streams; not for rendering")
    ] = None
    resolution: Annotated[
        Literal["1080p", "1440p", "4k", "8k"] | None, Doc("per display or stream")
    ] = None
    displays: Annotated[int, AtLeast(1), Doc("displays per virtual workstation")] = 1
    frame_rate_per_s: Annotated[float | None, RATE, Doc("per display or stream")] = None
    memory_bytes: Annotated[float | None, BYTES, Doc("GPU memory per session or frame")] = None
    vcpus: Annotated[
        int | None,
        AtLeast(1),
        Doc("vCPUs per virtual workstation; default: 4, or 8 above one 4K display"),
    ] = None
    host_memory_bytes: Annotated[
        float | None,
        BYTES,
        Doc("host memory per virtual workstation; default: 16GB, or 32GB above one 4K display"),
    ] = None
    frames_count: Annotated[int | None, COUNT, AtLeast(1), Doc("number of frames to render")] = None
    frame_time_s: Annotated[float | None, DURATION, Doc("render time per frame on one chip")] = None
    measured_on: Annotated[str | None, Doc("chip that frame_time was measured on")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hpc:
    """An HPC code: the fraction that accelerators can run, and what bounds that fraction."""

    offload_ratio: Annotated[
        float, RATIO, AtLeast(0), Doc("fraction of the CPU run time that can be offloaded")
    ]
    bound: Annotated[
        Literal["fp64", "fp32", "bandwidth"],
        Doc("whether the offloaded part is compute-bound or memory-bound"),
    ]
    flop_count: Annotated[float | None, COUNT, Doc("FLOPs of the whole run")] = None
    cpu_hours_count: Annotated[
        float | None, COUNT, Doc("CPU core-hours of the whole run, instead of flop")
    ] = None
    measured_on: Annotated[str | None, Doc("machine or chip that cpu_hours was measured on")] = None
    bytes_per_flop: Annotated[
        float | None,
        Doc("memory traffic per FLOP; required with flop when bound is bandwidth"),
    ] = None
    memory_bytes: Annotated[float | None, BYTES, Doc("working set of the whole run")] = None
    mpi: Annotated[bool, Doc("ranks on different machines communicate")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What a plan must keep; a key left out is searched."""

    tp: Annotated[int | None, AtLeast(1), Doc("tensor-parallel size")] = None
    pp: Annotated[int | None, AtLeast(1), Doc("pipeline-parallel size")] = None
    cp: Annotated[int | None, AtLeast(1), Tasks(used=TRAINING), Doc("context-parallel size")] = None
    ep: Annotated[int | None, AtLeast(1), Doc("expert-parallel size")] = None
    dp: Annotated[
        int | None, AtLeast(1), Doc("data-parallel size; for serving: of the attention")
    ] = None
    micro_batch: Annotated[
        int | None, AtLeast(1), Tasks(used=TRAINING), Doc("samples per micro-batch")
    ] = None
    sharding: Annotated[
        Literal["none", "optimizer", "parameters", "hybrid"] | None,
        Tasks(used=TRAINING),
        Doc("what data-parallel ranks share: ZeRO-1 is optimizer, FSDP is parameters"),
    ] = None
    recompute: Annotated[
        Literal["none", "selective", "full"] | None,
        Tasks(used=TRAINING),
        Doc("activations that are recomputed"),
    ] = None
    software: Annotated[
        str | None, Tasks(used=TRAINING), Doc("training framework, such as torchtitan")
    ] = None
    engine: Annotated[
        str | None, Tasks(used=INFERENCE), Doc("serving engine, such as vllm or tensorrt-llm")
    ] = None
    weights: Annotated[
        str | None, Tasks(used=INFERENCE), Doc("weight format, such as bf16, fp8 or nvfp4")
    ] = None
    kv: Annotated[str | None, Tasks(used=INFERENCE), Doc("KV-cache format: bf16 or fp8")] = None
    replicas: Annotated[
        int | None, AtLeast(1), Tasks(used=INFERENCE), Doc("number of replicas")
    ] = None
