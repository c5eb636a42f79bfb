"""What a plan is made of: clusters with their time, memory, cost and reasons, and the ones that did not make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog import Task
from gpuyard.document import Doc
from gpuyard.plan.service import FrontierPoint, Service
from gpuyard.workload import ConsumptionName, PlatformChoice

__all__ = [
    "Arrangement",
    "Bill",
    "Cluster",
    "Option",
    "Part",
    "Plan",
    "Rejected",
    "StorageNeed",
    "StoragePick",
    "Suitability",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One term of a sum: seconds of a step, or bytes on a chip."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Machines of one type."""

    machine: str
    machine_count: int
    chip_count: float
    chip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How a model is spread over the chips; the product tp × pp × cp × dp is their number."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    ep: int = 1
    micro_batch: int = 1
    gradient_accumulation: int = 1
    virtual_stages: int = 1
    sharding: Annotated[str, Doc("none, optimizer (ZeRO-1), parameters (ZeRO-3, FSDP) or hybrid (HSDP)")] = "none"
    recompute: Annotated[str, Doc("none, selective or full")] = "none"
    offload: Annotated[str, Doc("none, optimizer or activations: kept in the host's memory")] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the run costs by one way of paying."""

    way: ConsumptionName
    region: str
    price: Annotated[str, Doc("the row under prices")]
    usd_per_hour: Annotated[float, Doc("of the whole cluster")]
    billed_s: Annotated[float, Doc("time paid for, interruptions and restarts counted")]
    usd: float
    note: str = ""
    expected_s: Annotated[float, Doc("time to finish by this way; a commitment is paid for longer")] = 0.0
    host_price: Annotated[str, Doc("the row of the host, where accelerators are priced apart")] = ""
    term_s: Annotated[float, Doc("a commitment is paid for at least this long; 0 where there is none")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Suitability:
    """Whether a platform suits the option, and why."""

    platform: PlatformChoice
    suits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNeed:
    """What the work asks of storage."""

    read_bytes_per_s: Annotated[float, Doc("to keep every chip fed")]
    checkpoint_bytes: float
    checkpoint_write_bytes_per_s: Annotated[float, Doc("to write a checkpoint in the time allowed")]
    dataset_bytes: float | None = None
    note: Annotated[str, Doc("what is not known, and what was assumed")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePick:
    """A storage service in the size that meets the need."""

    storage: Annotated[str, Doc("a name under storage")]
    size_bytes: float
    read_bytes_per_s: float
    why: str
    write_bytes_per_s: float | None = None
    meets: Annotated[bool, Doc("false: listed to say why it does not do")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to do the work, with everything that decides between ways."""

    cluster: Cluster
    precision: str
    step_s: float
    step_parts: tuple[Part, ...]
    memory_bytes: Annotated[float, Doc("on the fullest chip")]
    memory_parts: tuple[Part, ...]
    memory_capacity_bytes: float
    ideal_s: Annotated[float, Doc("without a single interruption")]
    expected_s: Annotated[float, Doc("with failures, restarts and checkpoints")]
    error_ratio: Annotated[float, Doc("nine of ten published runs are predicted to within this")]
    bills: tuple[Bill, ...]
    platforms: tuple[Suitability, ...]
    network: str
    arrangement: Arrangement | None = None
    steps_count: float = 1.0
    mfu_ratio: Annotated[float | None, Doc("model FLOPs utilisation: useful operations over the dense peak")] = None
    tokens_per_s: float | None = None
    energy_joules: float | None = None
    storage_need: StorageNeed | None = None
    storage: tuple[StoragePick, ...] = ()
    service: Annotated[Service | None, Doc("what it serves, of inference")] = None
    on_front: Annotated[bool, Doc("nothing is better in time, cost and number of chips at once")] = False
    reasons: tuple[str, ...] = ()

    @property
    def usd(self) -> float | None:
        """The least that it costs."""
        return self.bill.usd if self.bill else None

    @property
    def bill(self) -> Bill | None:
        """The bill of the least cost."""
        return min(self.bills, key=lambda bill: bill.usd, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A family of candidates that is out, and the constraint that rules it out."""

    family: str
    binding: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options, best first, and what was rejected."""

    workload: str
    task: Task
    options: tuple[Option, ...]
    rejected: tuple[Rejected, ...]
    searched_count: int
    profile: Annotated[str, Doc("the software that the times are of")] = ""
    notes: tuple[str, ...] = ()
    frontier: Annotated[tuple[FrontierPoint, ...], Doc("speed for one user against yield of a chip, of inference")] = ()
