"""The plan as a value: options with time, memory and cost, and rejected machine families."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuyard.catalog.platforms import TaskName
from gpuyard.document.field_types import BY_NAME, Doc, FormerName
from gpuyard.plan.predictions import LimitChance, Prediction
from gpuyard.plan.service import FrontierPoint, Service
from gpuyard.workload.where import ConsumptionName, PlatformChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownTerm:
    """One term of a sum: seconds of a step, or bytes per chip."""

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
class ParallelLayout:
    """Parallelism layout of a model; tp × pp × cp × dp is the number of chips."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    dp: int = 1
    ep: int = 1
    micro_batch: int = 1
    gradient_accumulation: int = 1
    virtual_stages: int = 1
    sharding: Annotated[
        str, Doc("none, optimizer (ZeRO-1), parameters (ZeRO-3, FSDP) or hybrid (HSDP)")
    ] = "none"
    recompute: Annotated[str, Doc("none, selective or full")] = "none"
    offload: Annotated[str, Doc("none, optimizer or activations: moved to host memory")] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Cost of the run with one consumption option."""

    consumption: Annotated[ConsumptionName, FormerName("way")]
    region: str
    price: Annotated[str, Doc("the row under prices")]
    usd_per_hour: Annotated[float, Doc("for the whole cluster")]
    billed_s: Annotated[float, Doc("billed time, including interruptions and restarts")]
    usd: float
    note: str = ""
    expected_s: Annotated[
        float, Doc("time to finish with this consumption option; a commitment is billed for longer")
    ] = 0.0
    host_price: Annotated[
        str, Doc("the host's row under prices, if accelerators are priced separately")
    ] = ""
    term_s: Annotated[float, Doc("minimum billed time of a commitment; 0 without one")] = 0.0
    low_s: Annotated[float, Doc("expected time at the low end of the interruption rate")] = 0.0
    high_s: Annotated[float, Doc("expected time at the high end of the interruption rate")] = 0.0
    interruptions_count: Annotated[float, Doc("interruptions expected in the run")] = 0.0
    advised: Annotated[
        bool, Doc("false: preemptible machines that the file does not name, and a poor choice")
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Suitability:
    """Whether a platform suits the option, and why."""

    platform: PlatformChoice
    suits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRequirement:
    """Storage capacity and throughput that the work needs."""

    read_bytes_per_s: Annotated[float, Doc("to keep every chip busy")]
    checkpoint_bytes: float
    checkpoint_write_bytes_per_s: Annotated[float, Doc("to write a checkpoint in the time allowed")]
    dataset_bytes: float | None = None
    note: Annotated[str, Doc("unknowns and assumptions")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOption:
    """A storage service in the size that meets the requirement."""

    storage: Annotated[str, Doc("a name under storage")]
    size_bytes: float
    read_bytes_per_s: float
    why: str
    write_bytes_per_s: float | None = None
    meets: Annotated[bool, Doc("false: listed with the reason against it")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One candidate that meets every limit, with everything needed to compare candidates."""

    cluster: Cluster
    precision: str
    step_s: float
    step_parts: tuple[BreakdownTerm, ...]
    memory_bytes: Annotated[float, Doc("peak memory per chip")]
    memory_parts: tuple[BreakdownTerm, ...]
    memory_capacity_bytes: float
    ideal_s: Annotated[float, Doc("without interruptions")]
    expected_s: Annotated[float, Doc("with failures, restarts and checkpoints")]
    error_ratio: Annotated[float, Doc("5 % of measured values exceed predicted × (1 + this)")]
    bills: tuple[Bill, ...]
    platforms: tuple[Suitability, ...]
    network: str
    error_low_ratio: Annotated[
        float | None, Doc("5 % are below predicted / (1 + this); default: as error_ratio")
    ] = None
    arrangement: ParallelLayout | None = None
    steps_count: float = 1.0
    mfu_ratio: Annotated[float | None, Doc("model FLOPs utilisation (MFU) of the dense peak")] = (
        None
    )
    tokens_per_s: float | None = None
    energy_joules: float | None = None
    storage_need: StorageRequirement | None = None
    storage: tuple[StorageOption, ...] = ()
    service: Annotated[Service | None, Doc("for inference")] = None
    on_pareto_front: Annotated[
        bool,
        FormerName("on_front"),
        Doc("on the Pareto front of time, cost and chips"),
    ] = False
    reasons: tuple[str, ...] = ()
    software: Annotated[str, Doc("training software that runs this layout; empty: none")] = ""
    measured: Annotated[
        bool,
        Doc("false: too few published runs of this chip: constants of the nearest architecture"),
    ] = True
    keeps_numerics: Annotated[
        bool,
        Doc("false: a dtype that the file does not request: fp16 for bf16, or 4-bit weights"),
    ] = True
    predictions: Annotated[tuple[Prediction, ...], Doc("figures with their 90 % interval")] = field(
        default=(), metadata=BY_NAME
    )
    limits: Annotated[tuple[LimitChance, ...], Doc("chance of meeting each limit")] = field(
        default=(), metadata=BY_NAME
    )

    @property
    def usd(self) -> float | None:
        """Cost of the recommended bill."""
        return self.bill.usd if self.bill else None

    @property
    def bill(self) -> Bill | None:
        return self.bills[0] if self.bills else None

    @property
    def chance(self) -> float:
        """The chance of meeting the limit that is most at risk; 1 without limits."""
        return min((limit.chance for limit in self.limits), default=1.0)

    @property
    def meets_limits(self) -> bool:
        """True if every limit is met with the confidence of the file."""
        return all(limit.met for limit in self.limits)

    def prediction(self, name: str) -> Prediction | None:
        return next((item for item in self.predictions if item.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFamily:
    """A machine family without an option, and the constraint that binds."""

    family: str
    binding: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options, best first, and the rejected families."""

    workload: str
    task: TaskName
    options: tuple[Option, ...]
    rejected: tuple[RejectedFamily, ...]
    searched_count: int
    profile: Annotated[str, Doc("software of the predictions")] = ""
    notes: tuple[str, ...] = ()
    frontier: Annotated[
        tuple[FrontierPoint, ...], Doc("interactivity against throughput per chip, for inference")
    ] = ()
    by_token: Annotated[
        bool, Doc("a batch without limits on time: options are compared by cost per token")
    ] = False
    combined: Annotated[
        bool, Doc("the options are used together: each carries a share of the work")
    ] = False
