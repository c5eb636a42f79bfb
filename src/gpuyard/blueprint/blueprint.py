"""Blueprint: the chosen option of a plan with its workload, machine, fabric and evidence."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.machines import Machine
from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.errors import Severity
from gpuyard.fabric.fabric import Fabric
from gpuyard.plan.option import Bill, Option
from gpuyard.workload.where import ConsumptionName
from gpuyard.workload.workload import Workload

Shape = Literal["multi-node", "single-node", "service", "workstations"]
_NONE = FrozenJson()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a check or a simulation reported about the option: a sentence and its numbers."""

    kind: Annotated[
        Literal["finding", "simulation"],
        Doc("a finding of a check, or the summary of a simulation"),
    ]
    name: Annotated[str, Doc("the check, or what was simulated")]
    what: str
    severity: Severity = "note"
    numbers: Annotated[FrozenJson, Doc("as reported by the check or the simulation")] = _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What will be deployed; holds its catalog rows, so a later catalog does not change it."""

    workload: Workload
    option: Option
    machine: Machine
    chip: Chip | None = None
    consumption: Annotated[
        ConsumptionName | None, Doc("consumption option of rented machines; none: on-premises")
    ] = None
    number: Annotated[int, Doc("of the option in its plan, from 1")] = 1
    profile: Annotated[str, Doc("software profile that the times are predicted for")] = ""
    priced: Annotated[datetime.date | None, Doc("date of the oldest price used")] = None
    fabric: Annotated[
        Fabric | None, Doc("of on-premises machines; rented machines come with theirs")
    ] = None
    evidence: tuple[Evidence, ...] = ()
    mean_time_between_interruptions_s: Annotated[
        float, Doc("of the whole job, as in the plan's expected time; 0: no record, or a service")
    ] = 0.0

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def machine_count(self) -> int:
        return self.option.cluster.machine_count

    @property
    def shape(self) -> Shape:
        """A service, virtual workstations, or a job on one or several machines."""
        graphics = self.workload.graphics
        if self.workload.task == "inference":
            return "service"
        if graphics is not None and graphics.use == "virtual-workstation":
            return "workstations"
        return "multi-node" if self.machine_count > 1 else "single-node"

    @property
    def is_batch(self) -> bool:
        """True for a batch job; services, workstations and video streams run until stopped."""
        graphics = self.workload.graphics
        is_video = graphics is not None and graphics.use == "video"
        return self.shape not in ("service", "workstations") and not is_video

    @property
    def is_independent(self) -> bool:
        """True if the machines do not wait for each other, as with frames and video streams."""
        return self.workload.graphics is not None

    @property
    def sessions_per_machine(self) -> int:
        """Workstation sessions per machine, rounded up; 0 if there are none."""
        graphics = self.workload.graphics
        if graphics is None or self.shape != "workstations":
            return 0
        return math.ceil((graphics.sessions_count or 1) / self.machine_count)

    @property
    def is_tpu(self) -> bool:
        return self.chip is not None and self.chip.kind == "tpu"

    @property
    def bill(self) -> Bill | None:
        """Lowest cost estimate with the chosen consumption option; None if no price is known."""
        return min(
            (bill for bill in self.option.bills if bill.consumption == self.consumption),
            key=lambda bill: bill.usd,
            default=None,
        )

    @property
    def expected_s(self) -> float:
        """Expected duration of the work; one hour for a service."""
        bill = self.bill
        return bill.expected_s if bill and bill.expected_s else self.option.expected_s

    @property
    def usd_per_hour(self) -> float | None:
        """Hourly cost of the whole cluster."""
        return self.bill.usd_per_hour if self.bill else None
