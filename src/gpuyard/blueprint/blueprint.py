"""The decision: an option of a plan with its workload, its machine, its fabric, and what was proven of it."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import Chip, Machine
from gpuyard.document import Doc, Settings
from gpuyard.fabric import Fabric
from gpuyard.plan import Bill, Option
from gpuyard.workload import ConsumptionName, Workload

__all__ = ["Blueprint", "Proof", "Shape"]

Shape = Literal["multi-node", "single-node", "service", "desks"]
_NONE = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a check or a simulation said of the decision: a sentence, and the numbers behind it."""

    kind: Annotated[Literal["finding", "simulation"], Doc("a finding of a check, or the summary of a simulation")]
    name: Annotated[str, Doc("the check, or what was simulated")]
    what: str
    severity: Literal["error", "warning", "note"] = "note"
    numbers: Annotated[Settings, Doc("as the check or the simulation gave them")] = _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What will be deployed. The rows of the catalog are in it: a later catalog does not change what it says."""

    workload: Workload
    option: Option
    machine: Machine
    chip: Chip | None = None
    way: Annotated[ConsumptionName | None, Doc("how the machines are paid for; none: they are bought")] = None
    number: Annotated[int, Doc("of the option in its plan, from 1")] = 1
    profile: Annotated[str, Doc("the software that the times are of")] = ""
    priced: Annotated[datetime.date | None, Doc("the oldest of the dates of its prices")] = None
    fabric: Annotated[Fabric | None, Doc("the network of bought machines; rented ones come with theirs")] = None
    proofs: tuple[Proof, ...] = ()

    @property
    def name(self) -> str:
        """What the workload is called."""
        return self.workload.name

    @property
    def machine_count(self) -> int:
        """Machines of the option."""
        return self.option.cluster.machine_count

    @property
    def shape(self) -> Shape:
        """A service, desks that people sit at, a job on one machine, or one on several that work together."""
        graphics = self.workload.graphics
        if self.workload.task == "inference":
            return "service"
        if graphics is not None and graphics.use == "virtual-workstation":
            return "desks"
        return "multi-node" if self.machine_count > 1 else "single-node"

    @property
    def has_end(self) -> bool:
        """True of work that is done at some time; a service, desks and streams of video go on until they are ended."""
        graphics = self.workload.graphics
        return self.shape not in ("service", "desks") and (graphics is None or graphics.use != "video")

    @property
    def is_independent(self) -> bool:
        """True where a machine neither waits for the others nor ends with them: frames and streams."""
        return self.workload.graphics is not None

    @property
    def seats_per_machine(self) -> int:
        """People who sit at one machine: the sessions, shared out over the machines."""
        graphics = self.workload.graphics
        if graphics is None or self.shape != "desks":
            return 0
        return math.ceil((graphics.sessions_count or 1) / self.machine_count)

    @property
    def is_tpu(self) -> bool:
        """True of TPU machines."""
        return self.chip is not None and self.chip.kind == "tpu"

    @property
    def bill(self) -> Bill | None:
        """The least bill of the chosen way of paying; None where no price is known."""
        return min(
            (bill for bill in self.option.bills if bill.way == self.way), key=lambda bill: bill.usd, default=None
        )

    @property
    def expected_s(self) -> float:
        """How long the work is expected to take; a service has no end and gives an hour."""
        bill = self.bill
        return bill.expected_s if bill and bill.expected_s else self.option.expected_s

    @property
    def usd_per_hour(self) -> float | None:
        """What the whole cluster costs in an hour."""
        return self.bill.usd_per_hour if self.bill else None
