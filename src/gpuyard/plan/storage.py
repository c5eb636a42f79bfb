"""Storage requirements of a workload, and the services that meet them in their smallest size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model, Transformer
from gpuyard.catalog.platforms import TaskName
from gpuyard.catalog.storage import Storage
from gpuyard.plan.interruptions import CHECKPOINT_STALL_S
from gpuyard.plan.option import StorageOption, StorageRequirement
from gpuyard.units import BYTES, BYTES_PER_S, show
from gpuyard.workload.workload import Workload

TIB = 2.0**40
# Megatron-LM's indexed datasets store a token in two bytes below this vocabulary, else in four.
SHORT_VOCABULARY = 65_500
WEIGHT_BYTES = 2.0 + 4.0  # bf16 weight and fp32 master copy (mixed precision, Micikevicius 2018)
# Bytes of optimizer state per parameter: two fp32 moments, one, or (Adafactor) sums over rows
# and columns, below a thousandth of that (Shazeer and Stern 2018).
STATE_BYTES = {"adamw": 8.0, "adam": 8.0, "sgd": 4.0, "lion": 4.0, "muon": 4.0, "adafactor": 0.0}
RETAINED_CHECKPOINTS = 2  # the last one is retained until the next is complete
OVERSIZED_RATIO = 10.0  # services with a minimum size this far above the need rank last


def storage_need(
    workload: Workload,
    *,
    run_s: float,
    tokens_per_s: float | None = None,
    samples_per_s: float | None = None,
    stall_s: float = CHECKPOINT_STALL_S,
) -> StorageRequirement:
    """Return capacity and rates that keep chips busy and write a checkpoint in `stall_s`.

    `run_s` is the useful time of the run.
    """
    data = workload.data
    notes: list[str] = []
    dataset = data.size_bytes if data else None
    if dataset is None and data and data.tokens is not None:
        dataset = data.tokens * _token_bytes(workload.model)
        notes.append(f"{_token_bytes(workload.model):g} bytes per token: token ids only")
    read = 0.0
    if data and tokens_per_s is not None:
        sample = data.sequence_tokens or 1
        tokens = data.tokens or (data.samples_count or 0) * sample
        read = tokens_per_s * (
            dataset / tokens if dataset and tokens else _token_bytes(workload.model)
        )
    elif data and samples_per_s is not None and dataset and data.samples_count:
        read = samples_per_s * dataset / data.samples_count
    elif dataset and run_s > 0.0:
        read = dataset / run_s
        notes.append("the dataset is read once per run")
    if data and not read:
        notes.append("the size of the dataset is missing: the read rate is unknown")
    checkpoint = checkpoint_bytes(workload)
    return StorageRequirement(
        dataset_bytes=dataset,
        read_bytes_per_s=read,
        checkpoint_bytes=checkpoint,
        checkpoint_write_bytes_per_s=checkpoint / stall_s,
        note="; ".join(notes),
    )


def checkpoint_bytes(workload: Workload) -> float:
    """Return the size of a checkpoint: weights, master copy and optimizer states.

    With LoRA only those of the adapters; for HPC the working set.
    """
    if workload.hpc is not None:
        return workload.hpc.memory_bytes or 0.0
    if workload.task not in ("pretraining", "finetuning") or workload.model is None:
        return 0.0
    training = workload.training
    optimizer = training.optimizer if training else "adamw"
    parameters = workload.model.parameters_count
    if training and training.method != "full" and workload.model.transformer is not None:
        parameters = adapter_parameters(workload.model.transformer, training.lora_rank or 1)
    return parameters * (WEIGHT_BYTES + STATE_BYTES[optimizer])


def adapter_parameters(shape: Transformer, rank: int) -> float:
    """Count LoRA parameters on every linear layer except experts (QLoRA, arXiv 2305.14314)."""
    queries = shape.heads * shape.head_width
    keys = shape.key_value_heads * shape.head_width
    attention = (
        2 * (shape.hidden + queries)  # queries and output
        + 2 * (shape.hidden + keys)  # keys and values
    )
    mlp = (3 if shape.gated else 2) * (shape.hidden + shape.ffn)
    return rank * float(shape.layers * attention + (shape.layers - shape.expert_layers) * mlp)


def _stored_bytes(need: StorageRequirement) -> float:
    return (need.dataset_bytes or 0.0) + RETAINED_CHECKPOINTS * need.checkpoint_bytes


def _token_bytes(model: Model | None) -> float:
    vocabulary = model.transformer.vocab if model and model.transformer else 0
    return 2.0 if 0 < vocabulary < SHORT_VOCABULARY else 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized:
    row: Storage
    needed_bytes: float  # before the service's minimum size and increments
    size_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float | None  # None: unknown


def storage_picks(
    need: StorageRequirement, machine: Machine, catalog: Catalog, task: TaskName = "pretraining"
) -> tuple[StorageOption, ...]:
    """Return Google's services in the smallest sufficient size, recommended ones first.

    Services that cannot be used come last, with the reason.
    """
    if machine.provider != "google" or not (need.dataset_bytes or need.checkpoint_bytes):
        return ()
    recommended = _recommended(machine, catalog, task)
    picks: list[tuple[tuple[bool, bool, int, float], StorageOption]] = []
    for row in _offered(machine, catalog):
        sized = _size(row, need)
        oversized = sized.size_bytes > OVERSIZED_RATIO * sized.needed_bytes
        against = next(
            (reason for rule in RULES if (reason := rule(sized, need, machine)) is not None), None
        )
        rank = recommended.index(row.service) if row.service in recommended else len(recommended)
        pick = StorageOption(
            storage=row.name,
            size_bytes=sized.size_bytes,
            read_bytes_per_s=sized.read_bytes_per_s,
            write_bytes_per_s=sized.write_bytes_per_s,
            why=against or _why(sized, need, rank < len(recommended), task),
            meets=against is None,
        )
        picks.append(((against is not None, oversized, rank, sized.size_bytes), pick))
    return tuple(pick for _, pick in sorted(picks, key=lambda item: item[0]))


def _offered(machine: Machine, catalog: Catalog) -> list[Storage]:
    local = [
        row
        for row in catalog.storage
        if row.kind == "local" and row.max_bytes == machine.local_ssd_bytes
    ]
    return [row for row in catalog.storage if row.kind != "local"] + local[:1]


def _recommended(machine: Machine, catalog: Catalog, task: TaskName) -> Sequence[str]:
    rows = [row for row in catalog.guidance if row.task == task and row.storage]
    own = [row for row in rows if machine.series in row.series]
    return next((row.storage for row in (*own, *rows)), ())


def _size(row: Storage, need: StorageRequirement) -> _Sized:
    needed = _stored_bytes(need)
    for rate, per_tib in (
        (need.read_bytes_per_s, row.read_bytes_per_s_per_tib),
        (need.checkpoint_write_bytes_per_s, row.write_bytes_per_s_per_tib),
    ):
        if per_tib:
            needed = max(needed, rate / per_tib * TIB)
    size = max(needed, row.min_bytes or 0.0)
    if row.kind == "local":
        size = row.max_bytes or 0.0
    if row.step_bytes:
        start = row.min_bytes or 0.0
        size = start + math.ceil((size - start) / row.step_bytes - 1e-9) * row.step_bytes
    read, write = row.read_bytes_per_s_per_tib, row.write_bytes_per_s_per_tib
    return _Sized(
        row=row,
        needed_bytes=needed,
        size_bytes=size,
        read_bytes_per_s=read * size / TIB if read else row.max_read_bytes_per_s or 0.0,
        write_bytes_per_s=write * size / TIB if write else row.max_write_bytes_per_s,
    )


def _too_large(sized: _Sized, _need: StorageRequirement, _machine: Machine) -> str | None:
    most = sized.row.max_bytes
    if most is None or sized.size_bytes <= most:
        return None
    return f"{show(sized.size_bytes, BYTES)} needed, above its maximum of {show(most, BYTES)}"


def _cache(sized: _Sized, need: StorageRequirement, _machine: Machine) -> str | None:
    if sized.row.kind != "object-cache":
        return None
    if need.checkpoint_bytes:
        return "read-only cache, no checkpoints: use it in front of Cloud Storage"
    return "read-only cache in front of Cloud Storage, not a replacement"


def _read_only(sized: _Sized, need: StorageRequirement, _machine: Machine) -> str | None:
    if sized.row.kind == "block" and need.checkpoint_bytes:
        return "read-only when attached to several machines: no checkpoints"
    return None


def _local(sized: _Sized, _need: StorageRequirement, _machine: Machine) -> str | None:
    if sized.row.kind != "local":
        return None
    return "lost when the machine stops: only for caches and scratch data"


def _too_slow_to_read(sized: _Sized, need: StorageRequirement, _machine: Machine) -> str | None:
    if sized.read_bytes_per_s >= need.read_bytes_per_s * (1.0 - 1e-9):
        return None
    available = show(sized.read_bytes_per_s, BYTES_PER_S)
    return f"reads {available}, below the required {show(need.read_bytes_per_s, BYTES_PER_S)}"


def _too_slow_to_write(sized: _Sized, need: StorageRequirement, _machine: Machine) -> str | None:
    write = sized.write_bytes_per_s
    needed = need.checkpoint_write_bytes_per_s
    if write is None or write >= needed * (1.0 - 1e-9):
        return None
    return f"writes {show(write, BYTES_PER_S)}; a checkpoint needs {show(needed, BYTES_PER_S)}"


def _invitation(sized: _Sized, _need: StorageRequirement, _machine: Machine) -> str | None:
    return "by invitation, and not durable" if "by invitation" in sized.row.limits else None


Rule = Callable[[_Sized, StorageRequirement, Machine], str | None]
RULES: tuple[Rule, ...] = (
    _local,
    _cache,
    _read_only,
    _invitation,
    _too_large,
    _too_slow_to_read,
    _too_slow_to_write,
)


def _why(sized: _Sized, need: StorageRequirement, recommended: bool, task: TaskName) -> str:

    parts = [f"recommended by Google for {task}"] if recommended else []
    if sized.size_bytes > OVERSIZED_RATIO * sized.needed_bytes:
        parts.append(f"its minimum size, far above the required {show(sized.needed_bytes, BYTES)}")
    else:
        by_capacity = sized.needed_bytes == _stored_bytes(need)
        parts.append("sized for capacity" if by_capacity else "sized for throughput")
    if sized.write_bytes_per_s is None and need.checkpoint_bytes:
        parts.append("write throughput unknown")
    return "; ".join(parts)
