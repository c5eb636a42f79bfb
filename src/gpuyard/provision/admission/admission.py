"""Proof of admission: whether a job can be admitted and placed, and the smallest change if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc

# placed: fits now. preempts: fits once named workloads of lower priority are gone. waits: fits on
# an empty cluster, not now. never: does not fit on the empty cluster. The last two may be admitted
# by quota alone, and then hold it while their pods stay pending.
AdmissionVerdict = Literal["placed", "preempts", "waits", "never", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a scheduler would do with a job."""

    job: str
    scheduler: Literal["Kueue", "Slurm"]
    verdict: AdmissionVerdict
    what: str
    changes: Annotated[
        tuple[str, ...], Doc("each makes it fit, computed by placing it; the smallest first")
    ] = ()
    nodes: Annotated[tuple[tuple[str, int], ...], Doc("pods, or tasks, per node")] = ()
    preempted: tuple[str, ...] = ()
