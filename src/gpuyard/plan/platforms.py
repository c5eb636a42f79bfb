"""Which platform suits a cluster: what the catalog says it can run, its limits, and what the task asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine, Platform
from gpuyard.plan.option import Suitability
from gpuyard.workload import PlatformChoice, Workload

__all__ = ["suitability"]

CLOUD: tuple[PlatformChoice, ...] = ("compute-engine", "gke", "slurm", "vertex-ai", "cloud-run")
OWN: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
NVLINK_DOMAIN_MACHINES = 18  # A4X: Vertex AI training clusters take whole domains
TRAINING = ("pretraining", "finetuning")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What is to be placed."""

    workload: Workload
    machine: Machine
    machine_count: int
    row: Platform | None  # the platform's row, where the catalog has it


def suitability(workload: Workload, machine: Machine, machine_count: int, catalog: Catalog) -> tuple[Suitability, ...]:
    """Every platform of the provider with the reason for or against it, the best first."""
    own = workload.where.provider == "onprem"
    rows = {row.name: row for row in catalog.platforms}
    judged: list[tuple[float, int, Suitability]] = []
    for order, platform in enumerate(OWN if own else CLOUD):
        row = None if own else rows.get(platform)
        case = _Case(workload=workload, machine=machine, machine_count=machine_count, row=row)
        against = _asked(platform, case) or (None if own else _against(platform, case))
        verdict = Suitability(
            platform=platform, suits=against is None, why=against or _why(platform, case, catalog)
        )  # fmt: skip
        judged.append((_score(platform, case, catalog) if against is None else -1.0, order, verdict))
    return tuple(verdict for _, _, verdict in sorted(judged, key=lambda item: (-item[0], item[1])))


def _asked(platform: PlatformChoice, case: _Case) -> str | None:
    """The file asks for another platform."""
    asked = case.workload.where.platform
    return None if asked in (None, platform) else f"where.platform asks for {asked}"


def _against(platform: PlatformChoice, case: _Case) -> str | None:
    """The first thing that speaks against a cloud platform."""
    found = (rule(case) for rule in (_task, RULES[platform]))
    return next((reason for reason in found if reason is not None), None)


def _task(case: _Case) -> str | None:
    """The task is not among those that the platform suits."""
    if case.row is None or case.workload.task in case.row.suits:
        return None
    return f"{case.row.label} is not made for {case.workload.task}: it suits {', '.join(case.row.suits)}"


def _compute_engine(case: _Case) -> str | None:
    if case.machine.platforms.compute_engine == "no":
        return f"Compute Engine does not offer {case.machine.name}"
    return None


def _gke(case: _Case) -> str | None:
    if case.machine.platforms.gke_standard == "no" and case.machine.platforms.gke_autopilot == "no":
        return f"GKE has no nodes of {case.machine.name}"
    return _kubernetes(case)


def _kubernetes(case: _Case) -> str | None:
    return "pods have no display to sit at" if _is_desk(case) else None


def _is_desk(case: _Case) -> bool:
    """People sit at the machines."""
    return case.workload.graphics is not None and case.workload.graphics.use == "virtual-workstation"


def _slurm(case: _Case) -> str | None:
    support = case.machine.platforms
    if support.cluster_toolkit == "no" and support.cluster_director == "no":
        return f"neither Cluster Director nor Cluster Toolkit has a template for {case.machine.name}"
    return None


def _vertex_ai(case: _Case) -> str | None:
    support, machine = case.machine.platforms, case.machine
    if support.vertex_ai is None and support.vertex_training_clusters != "yes":
        return f"Vertex AI names no accelerator type for {machine.name}"
    if case.workload.task not in TRAINING or case.machine_count == 1:
        return None
    rest = case.machine_count % NVLINK_DOMAIN_MACHINES
    if machine.series == "A4X" and rest:
        return f"its training clusters take A4X in multiples of {NVLINK_DOMAIN_MACHINES}: {case.machine_count} are not"
    return None


def _cloud_run(case: _Case) -> str | None:
    if case.machine.platforms.cloud_run != "yes":
        return "an instance has one GPU, an L4 or an RTX PRO 6000, and no traffic to other GPUs"
    if _is_desk(case):
        return "instances answer requests; they have no display to sit at"
    return None


RULES: dict[PlatformChoice, Callable[[_Case], str | None]] = {
    "compute-engine": _compute_engine,
    "gke": _gke,
    "slurm": _slurm,
    "vertex-ai": _vertex_ai,
    "cloud-run": _cloud_run,
    "kubernetes": _kubernetes,
}


def _score(platform: PlatformChoice, case: _Case, catalog: Catalog) -> float:
    """How well a platform that suits does so: the provider's word first, then the task's own way of working."""
    single = case.machine_count == 1
    score = 0.0
    if platform in _advised(case, catalog) and (not single or platform == "compute-engine"):
        score += 4.0
    if single and platform == "compute-engine":
        score += 5.0  # one machine needs no orchestrator
    hpc = case.workload.hpc
    if platform == "slurm" and hpc is not None and not single:
        score += 3.0 if hpc.mpi else 1.0
    if platform == "gke" and case.workload.task == "inference" and not single:
        score += 2.0  # replicas that follow the traffic
    if platform == "compute-engine" and case.workload.graphics is not None:
        score += 2.0 if _is_desk(case) else 1.0
    return score


def _advised(case: _Case, catalog: Catalog) -> Iterator[str]:
    """The orchestrators that the provider's guidance names for this task on this series."""
    for row in catalog.guidance:
        if row.task == case.workload.task and case.machine.series in row.series:
            yield from row.orchestrators


def _why(platform: PlatformChoice, case: _Case, catalog: Catalog) -> str:
    """What speaks for a platform that suits."""
    parts: list[str] = []
    if case.machine_count == 1 and case.row is not None:
        parts.append("one machine needs no orchestrator" if platform == "compute-engine" else "works for one machine")
    elif platform == "compute-engine":
        parts.append(f"{case.machine_count} machines: bring your own orchestrator")
    if platform in _advised(case, catalog):
        parts.append(f"Google's guidance names it for {case.workload.task} on {case.machine.series}")
    parts += _products(platform, case)
    if case.row is not None:
        parts.append(f"control: {case.row.control}")
    return "; ".join(parts) or f"your own {platform}"


def _products(platform: PlatformChoice, case: _Case) -> Iterator[str]:
    """The product that gives it, or that no source confirms one."""
    support = case.machine.platforms
    answers: dict[PlatformChoice, tuple[tuple[str, str | None], ...]] = {
        "compute-engine": (("instances", support.compute_engine),),
        "gke": (("Standard", support.gke_standard), ("Autopilot", support.gke_autopilot)),
        "slurm": (("Cluster Director", support.cluster_director), ("Cluster Toolkit", support.cluster_toolkit)),
        "vertex-ai": (("training clusters", support.vertex_training_clusters), ("custom jobs", support.vertex_ai)),
        "cloud-run": (("services", support.cloud_run),),
    }
    if case.workload.where.provider == "onprem":
        return
    given = [name for name, answer in answers[platform] if answer not in (None, "no")]
    yield f"with {' or '.join(given)}" if given else f"no source confirms {case.machine.name} there"
