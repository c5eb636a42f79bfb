"""What the work asks of storage, and the services that meet it in the smallest size they are sold in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine, Model, Storage, Task, Transformer
from gpuyard.plan.exposure import CHECKPOINT_STALL_S
from gpuyard.plan.option import StorageNeed, StoragePick
from gpuyard.units import BYTES, BYTES_PER_S, show
from gpuyard.workload import Workload

__all__ = ["adapter_parameters", "checkpoint_bytes", "storage_need", "storage_picks"]

TIB = 2.0**40
SHORT_VOCABULARY = 65_500  # up to here Megatron-LM's indexed data sets hold a token in two bytes, above in four
WEIGHT_BYTES = 2.0 + 4.0  # bf16 weight and fp32 master copy (mixed precision, Micikevicius 2018)
# Bytes of optimizer state of one parameter: two fp32 moments, one, or (Adafactor) sums over rows and columns, below
# a thousandth of that (Shazeer and Stern 2018).
STATE_BYTES = {"adamw": 8.0, "adam": 8.0, "sgd": 4.0, "lion": 4.0, "muon": 4.0, "adafactor": 0.0}
KEPT_CHECKPOINTS = 2  # the last one stays until the next is whole
OVERSIZED_RATIO = 10.0  # a service whose least size is an order of magnitude above the need comes after the others


def storage_need(
    workload: Workload,
    *,
    run_s: float,
    tokens_per_s: float | None = None,
    samples_per_s: float | None = None,
    stall_s: float = CHECKPOINT_STALL_S,
) -> StorageNeed:
    """Bytes and rates that keep the chips fed and write a checkpoint in `stall_s`; `run_s` is the run's useful time."""
    data, notes = workload.data, []
    dataset = data.size_bytes if data else None
    if dataset is None and data and data.tokens is not None:
        dataset = data.tokens * _token_bytes(workload.model)
        notes.append(f"{_token_bytes(workload.model):g} bytes a token: ids alone")
    read = 0.0
    if data and tokens_per_s is not None:
        sample = data.sequence_tokens or 1
        tokens = data.tokens or (data.samples_count or 0) * sample
        read = tokens_per_s * (dataset / tokens if dataset and tokens else _token_bytes(workload.model))
    elif data and samples_per_s is not None and dataset and data.samples_count:
        read = samples_per_s * dataset / data.samples_count
    elif dataset and run_s > 0.0:
        read = dataset / run_s
        notes.append("the data set is read once in the run")
    if data and not read:
        notes.append("the size of the data set is not given: its read rate is not known")
    checkpoint = checkpoint_bytes(workload)
    return StorageNeed(
        dataset_bytes=dataset,
        read_bytes_per_s=read,
        checkpoint_bytes=checkpoint,
        checkpoint_write_bytes_per_s=checkpoint / stall_s,
        note="; ".join(notes),
    )


def checkpoint_bytes(workload: Workload) -> float:
    """A checkpoint: weights, master copy and optimizer states; of adapters alone with LoRA; the working set in HPC."""
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
    """Parameters of LoRA adapters on every linear layer but the experts (QLoRA, arXiv 2305.14314, adapts them all)."""
    queries, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    attention = (
        2 * (shape.hidden + queries)  # queries and output
        + 2 * (shape.hidden + keys)   # keys and values
    )  # fmt: skip
    mlp = (3 if shape.gated else 2) * (shape.hidden + shape.ffn)
    return rank * float(shape.layers * attention + (shape.layers - shape.expert_layers) * mlp)


def _held_bytes(need: StorageNeed) -> float:
    """What has to be kept: the data set and the last checkpoints."""
    return (need.dataset_bytes or 0.0) + KEPT_CHECKPOINTS * need.checkpoint_bytes


def _token_bytes(model: Model | None) -> float:
    """Bytes of one token id on disk."""
    vocabulary = model.transformer.vocab if model and model.transformer else 0
    return 2.0 if 0 < vocabulary < SHORT_VOCABULARY else 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized:
    """A service in a size."""

    row: Storage
    wanted_bytes: float  # before the service's own least size and steps
    size_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float | None  # None: no source tells


def storage_picks(
    need: StorageNeed, machine: Machine, catalog: Catalog, task: Task = "pretraining"
) -> tuple[StoragePick, ...]:
    """Google's services in the smallest size that does, its own advice first; then those that cannot, and why."""
    if machine.provider != "google" or not (need.dataset_bytes or need.checkpoint_bytes):
        return ()
    advised = _advised(machine, catalog, task)
    picks: list[tuple[tuple[bool, bool, int, float], StoragePick]] = []
    for row in _offered(machine, catalog):
        sized = _size(row, need)
        oversized = sized.size_bytes > OVERSIZED_RATIO * sized.wanted_bytes
        against = next((reason for rule in RULES if (reason := rule(sized, need, machine)) is not None), None)
        rank = advised.index(row.service) if row.service in advised else len(advised)
        pick = StoragePick(
            storage=row.name,
            size_bytes=sized.size_bytes,
            read_bytes_per_s=sized.read_bytes_per_s,
            write_bytes_per_s=sized.write_bytes_per_s,
            why=against or _why(sized, need, rank < len(advised), task),
            meets=against is None,
        )
        picks.append(((against is not None, oversized, rank, sized.size_bytes), pick))
    return tuple(pick for _, pick in sorted(picks, key=lambda item: item[0]))


def _offered(machine: Machine, catalog: Catalog) -> list[Storage]:
    """The services that the machine can use; of its own disks, the row of their size."""
    local = [row for row in catalog.storage if row.kind == "local" and row.max_bytes == machine.local_ssd_bytes]
    return [row for row in catalog.storage if row.kind != "local"] + local[:1]


def _advised(machine: Machine, catalog: Catalog, task: Task) -> Sequence[str]:
    """The services that the provider's guidance names for the task on this series, the first choice first."""
    rows = [row for row in catalog.guidance if row.task == task and row.storage]
    own = [row for row in rows if machine.series in row.series]
    return next((row.storage for row in (*own, *rows)), ())


def _size(row: Storage, need: StorageNeed) -> _Sized:
    """The smallest size that holds the data and the checkpoints and gives the throughput."""
    wanted = _held_bytes(need)
    for rate, per_tib in (
        (need.read_bytes_per_s, row.read_bytes_per_s_per_tib),
        (need.checkpoint_write_bytes_per_s, row.write_bytes_per_s_per_tib),
    ):
        if per_tib:
            wanted = max(wanted, rate / per_tib * TIB)
    size = max(wanted, row.min_bytes or 0.0)
    if row.kind == "local":
        size = row.max_bytes or 0.0
    if row.step_bytes:
        start = row.min_bytes or 0.0
        size = start + math.ceil((size - start) / row.step_bytes - 1e-9) * row.step_bytes
    read, write = row.read_bytes_per_s_per_tib, row.write_bytes_per_s_per_tib
    return _Sized(
        row=row,
        wanted_bytes=wanted,
        size_bytes=size,
        read_bytes_per_s=read * size / TIB if read else row.max_read_bytes_per_s or 0.0,
        write_bytes_per_s=write * size / TIB if write else row.max_write_bytes_per_s,
    )


def _too_large(sized: _Sized, _need: StorageNeed, _machine: Machine) -> str | None:
    most = sized.row.max_bytes
    if most is None or sized.size_bytes <= most:
        return None
    return f"{show(sized.size_bytes, BYTES)} would be needed; it ends at {show(most, BYTES)}"


def _cache(sized: _Sized, need: StorageNeed, _machine: Machine) -> str | None:
    if sized.row.kind != "object-cache":
        return None
    if need.checkpoint_bytes:
        return "a read-only cache: it takes no checkpoints; put it before Cloud Storage where reads repeat"
    return "a read-only cache: it stands before Cloud Storage, not in its place"


def _read_only(sized: _Sized, need: StorageNeed, _machine: Machine) -> str | None:
    if sized.row.kind == "block" and need.checkpoint_bytes:
        return "attached to several machines it is read-only: it takes no checkpoints"
    return None


def _local(sized: _Sized, _need: StorageNeed, _machine: Machine) -> str | None:
    if sized.row.kind != "local":
        return None
    return "lost when the machine stops: for caches and scratch beside a durable service"


def _too_slow_to_read(sized: _Sized, need: StorageNeed, _machine: Machine) -> str | None:
    if sized.read_bytes_per_s >= need.read_bytes_per_s * (1.0 - 1e-9):
        return None
    given, wanted = show(sized.read_bytes_per_s, BYTES_PER_S), show(need.read_bytes_per_s, BYTES_PER_S)
    return f"it reads {given}; {wanted} are needed"


def _too_slow_to_write(sized: _Sized, need: StorageNeed, _machine: Machine) -> str | None:
    write, wanted = sized.write_bytes_per_s, need.checkpoint_write_bytes_per_s
    if write is None or write >= wanted * (1.0 - 1e-9):
        return None
    return f"it writes {show(write, BYTES_PER_S)}; a checkpoint needs {show(wanted, BYTES_PER_S)}"


def _invitation(sized: _Sized, _need: StorageNeed, _machine: Machine) -> str | None:
    return "by invitation, and not durable" if "by invitation" in sized.row.limits else None


Rule = Callable[[_Sized, StorageNeed, Machine], str | None]
RULES: tuple[Rule, ...] = (_local, _cache, _read_only, _invitation, _too_large, _too_slow_to_read, _too_slow_to_write)


def _why(sized: _Sized, need: StorageNeed, advised: bool, task: Task) -> str:
    """What speaks for a service that meets the need."""
    parts = [f"Google advises it for {task}"] if advised else []
    if sized.size_bytes > OVERSIZED_RATIO * sized.wanted_bytes:
        parts.append(f"its smallest size, far above the {show(sized.wanted_bytes, BYTES)} that are needed")
    else:
        parts.append("sized by what it holds" if sized.wanted_bytes == _held_bytes(need) else "sized by its throughput")
    if sized.write_bytes_per_s is None and need.checkpoint_bytes:
        parts.append("no source gives its write throughput")
    return "; ".join(parts)
