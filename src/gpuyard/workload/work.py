"""What the work is: the data, the training, the traffic, the graphics or the computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import AtLeast, Doc
from gpuyard.units import BYTES, COUNT, DURATION, RATE, RATIO, TOKENS
from gpuyard.workload.keys import TRAINING, Tasks

__all__ = ["Data", "Graphics", "Hpc", "Traffic", "Training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The data set that the work reads."""

    tokens: Annotated[int | None, TOKENS, Tasks(used=TRAINING), Doc("tokens of the data set, read once")] = None
    samples_count: Annotated[
        int | None, COUNT, Tasks(used=TRAINING), Doc("samples of the data set, in place of tokens")
    ] = None
    sequence_tokens: Annotated[
        int | None, TOKENS, AtLeast(1), Tasks(used=TRAINING), Doc("tokens of one training sample")
    ] = None
    epochs: Annotated[float, Tasks(used=TRAINING), Doc("times that the data set is read")] = 1.0
    size_bytes: Annotated[float | None, BYTES, Doc("its size on disk")] = None
    location: Annotated[str | None, Doc("where it lies: gs://bucket/path, s3://bucket/path or a folder")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the model is trained."""

    method: Annotated[Literal["full", "lora", "qlora"], Doc("which weights are trained")] = "full"
    global_batch_count: Annotated[
        int | None, COUNT, AtLeast(1), Doc("samples of one optimizer step, over all machines; default: chosen for you")
    ] = None
    lora_rank: Annotated[int | None, AtLeast(1), Doc("rank of the adapters; needed by lora and qlora")] = None
    optimizer: Annotated[
        Literal["adamw", "adam", "sgd", "adafactor", "lion", "muon"], Doc("sets the memory of its states")
    ] = "adamw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests that a served model answers."""

    input_tokens: Annotated[float | None, TOKENS, AtLeast(1), Doc("tokens of a prompt, on average")] = None
    output_tokens: Annotated[float | None, TOKENS, AtLeast(0), Doc("tokens of an answer, on average")] = None
    concurrency_count: Annotated[
        int | None, COUNT, AtLeast(1), Doc("requests in flight at once; alone, each answer brings the next request")
    ] = None
    arrivals: Annotated[
        Literal["poisson", "steady", "burst"], Doc("at random, at a fixed distance, or all at once")
    ] = "poisson"
    prefix_hit_ratio: Annotated[
        float, RATIO, AtLeast(0), Doc("share of prompt tokens that an earlier prompt has left in the cache")
    ] = 0.0
    trace: Annotated[
        str | None,
        Doc("a CSV beside this file with arrived_at, num_prefill_tokens and num_decode_tokens, in place of the above"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphics:
    """Pixels: people at virtual workstations, frames to render, or video to transcode."""

    use: Annotated[Literal["virtual-workstation", "rendering", "video"], Doc("what the pixels are for")]
    sessions_count: Annotated[
        int | None, COUNT, AtLeast(1), Doc("people or streams at the same time; not for rendering")
    ] = None
    resolution: Annotated[Literal["1080p", "1440p", "4k", "8k"] | None, Doc("of one display or stream")] = None
    displays: Annotated[int, AtLeast(1), Doc("displays of one virtual workstation")] = 1
    frame_rate_per_s: Annotated[float | None, RATE, Doc("of one display or stream")] = None
    memory_bytes: Annotated[float | None, BYTES, Doc("GPU memory of one session or frame")] = None
    frames_count: Annotated[int | None, COUNT, AtLeast(1), Doc("frames to render")] = None
    frame_time_s: Annotated[float | None, DURATION, Doc("time to render one frame on one chip")] = None
    measured_on: Annotated[str | None, Doc("the chip that frame_time was measured on")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hpc:
    """A computation that is not a neural network: how much of it can leave the CPU, and what then limits it."""

    offload_ratio: Annotated[
        float, RATIO, AtLeast(0), Doc("share of the CPU run's time that accelerators can take over")
    ]
    bound: Annotated[Literal["fp64", "fp32", "bandwidth"], Doc("what limits the part that is taken over")]
    flop_count: Annotated[float | None, COUNT, Doc("floating-point operations of the whole run")] = None
    cpu_hours_count: Annotated[float | None, COUNT, Doc("core-hours of the whole run on CPUs, in place of flop")] = None
    measured_on: Annotated[str | None, Doc("the machine or chip that cpu_hours was measured on")] = None
    bytes_per_flop: Annotated[
        float | None, Doc("memory traffic of one operation; needed with flop when bandwidth is the bound")
    ] = None
    memory_bytes: Annotated[float | None, BYTES, Doc("working set of the whole run")] = None
    mpi: Annotated[bool, Doc("ranks on different machines talk to each other")] = False
