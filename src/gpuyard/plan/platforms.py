"""Suitability of provisioning platforms for a cluster: support, limits, provider's guidance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.platforms import PlatformInfo
from gpuyard.catalog.providers import CloudProvider
from gpuyard.plan.option import Suitability
from gpuyard.workload.where import PlatformChoice
from gpuyard.workload.workload import Workload

CLOUD: tuple[PlatformChoice, ...] = ("compute-engine", "gke", "slurm", "vertex-ai", "cloud-run")
ONPREM: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
NVLINK_DOMAIN_MACHINES = 18  # A4X: Vertex AI training clusters use whole domains
TRAINING = ("pretraining", "finetuning")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacementCase:
    workload: Workload
    machine: Machine
    machine_count: int
    row: PlatformInfo | None  # the platform's row in the catalog, if any


def suitability(
    workload: Workload, machine: Machine, machine_count: int, catalog: Catalog
) -> tuple[Suitability, ...]:
    """Return every platform of the provider with the reason for or against it, best first."""
    cloud = machine.provider == "google"
    rows = {row.name: row for row in catalog.platforms}
    results: list[tuple[float, int, Suitability]] = []
    for order, platform in enumerate(CLOUD if cloud else ONPREM):
        row = rows.get(platform) if cloud else None
        case = _PlacementCase(
            workload=workload, machine=machine, machine_count=machine_count, row=row
        )
        against = _not_requested(platform, case) or _against(platform, case, catalog)
        verdict = Suitability(
            platform=platform, suits=against is None, why=against or _why(platform, case, catalog)
        )
        results.append(
            (_score(platform, case, catalog) if against is None else -1.0, order, verdict)
        )
    return tuple(verdict for _, _, verdict in sorted(results, key=lambda item: (-item[0], item[1])))


def _not_requested(platform: PlatformChoice, case: _PlacementCase) -> str | None:
    requested = case.workload.where.platform
    return None if requested in (None, platform) else f"where.platform is {requested}"


def _against(platform: PlatformChoice, case: _PlacementCase, catalog: Catalog) -> str | None:
    if case.machine.provider == "google":
        return _task(case) or RULES[platform](case)
    provider = _provider(case, catalog)
    if provider is not None and not _service(platform, provider):
        return f"{provider.label} offers no {platform.capitalize()} for {case.machine.name}"
    return None


def _provider(case: _PlacementCase, catalog: Catalog) -> CloudProvider | None:
    return next((row for row in catalog.providers if row.name == case.machine.provider), None)


def _service(platform: PlatformChoice, provider: CloudProvider) -> str:
    return provider.kubernetes if platform == "kubernetes" else provider.slurm


def _task(case: _PlacementCase) -> str | None:
    if case.row is None or case.workload.task in case.row.suits:
        return None
    return f"{case.row.label} is for {', '.join(case.row.suits)}, not for {case.workload.task}"


def _compute_engine(case: _PlacementCase) -> str | None:
    if case.machine.platforms.compute_engine == "no":
        return f"Compute Engine does not offer {case.machine.name}"
    return None


def _gke(case: _PlacementCase) -> str | None:
    if case.machine.platforms.gke_standard == "no" and case.machine.platforms.gke_autopilot == "no":
        return f"GKE has no nodes of {case.machine.name}"
    return _kubernetes(case)


def _kubernetes(case: _PlacementCase) -> str | None:
    return "pods have no display" if _is_workstation(case) else None


def _is_workstation(case: _PlacementCase) -> bool:
    return (
        case.workload.graphics is not None and case.workload.graphics.use == "virtual-workstation"
    )


def _slurm(case: _PlacementCase) -> str | None:
    support = case.machine.platforms
    if support.cluster_toolkit == "no" and support.cluster_director == "no":
        return (
            f"neither Cluster Director nor Cluster Toolkit has a template for {case.machine.name}"
        )
    return None


def _vertex_ai(case: _PlacementCase) -> str | None:
    support, machine = case.machine.platforms, case.machine
    if support.vertex_ai is None and support.vertex_training_clusters != "yes":
        return f"Vertex AI has no accelerator type for {machine.name}"
    if case.workload.task not in TRAINING or case.machine_count == 1:
        return None
    rest = case.machine_count % NVLINK_DOMAIN_MACHINES
    if machine.series == "A4X" and rest:
        return f"training clusters need A4X in multiples of {NVLINK_DOMAIN_MACHINES} machines"
    return None


def _cloud_run(case: _PlacementCase) -> str | None:
    if case.machine.platforms.cloud_run != "yes":
        return "an instance has one L4 or RTX PRO 6000 and no network between GPUs"
    if _is_workstation(case):
        return "instances serve requests; they have no display"
    return None


RULES: dict[PlatformChoice, Callable[[_PlacementCase], str | None]] = {
    "compute-engine": _compute_engine,
    "gke": _gke,
    "slurm": _slurm,
    "vertex-ai": _vertex_ai,
    "cloud-run": _cloud_run,
    "kubernetes": _kubernetes,
}


def _score(platform: PlatformChoice, case: _PlacementCase, catalog: Catalog) -> float:
    """Rank suitable platforms: the provider's guidance first, then the task."""
    single = case.machine_count == 1
    score = 0.0
    if platform in _recommended(case, catalog) and (not single or platform == "compute-engine"):
        score += 4.0
    if single and platform == "compute-engine":
        score += 5.0  # one machine needs no orchestrator
    hpc = case.workload.hpc
    if platform == "slurm" and hpc is not None and not single:
        score += 3.0 if hpc.mpi else 1.0
    if platform == "gke" and case.workload.task == "inference" and not single:
        score += 2.0  # replicas scale with the traffic
    if platform == "compute-engine" and case.workload.graphics is not None:
        score += 2.0 if _is_workstation(case) else 1.0
    return score


def _recommended(case: _PlacementCase, catalog: Catalog) -> Iterator[str]:
    for row in catalog.guidance:
        if row.task == case.workload.task and case.machine.series in row.series:
            yield from row.orchestrators


def _why(platform: PlatformChoice, case: _PlacementCase, catalog: Catalog) -> str:
    parts: list[str] = []
    if case.machine_count == 1 and case.row is not None:
        parts.append(
            "one machine needs no orchestrator"
            if platform == "compute-engine"
            else "works for one machine"
        )
    elif platform == "compute-engine":
        parts.append(f"{case.machine_count} machines: bring your own orchestrator")
    if platform in _recommended(case, catalog):
        parts.append(f"recommended by Google for {case.workload.task} on {case.machine.series}")
    parts += _products(platform, case)
    if case.row is not None:
        parts.append(f"control: {case.row.control}")
    provider = _provider(case, catalog)
    if provider is not None and case.row is None:
        parts.append(f"files for a cluster of {_service(platform, provider)} that exists")
        parts += [provider.note] if provider.note else []
    return "; ".join(parts) or f"your own {platform}"


def _products(platform: PlatformChoice, case: _PlacementCase) -> Iterator[str]:
    support = case.machine.platforms
    support_of: dict[PlatformChoice, tuple[tuple[str, str | None], ...]] = {
        "compute-engine": (("instances", support.compute_engine),),
        "gke": (("Standard", support.gke_standard), ("Autopilot", support.gke_autopilot)),
        "slurm": (
            ("Cluster Director", support.cluster_director),
            ("Cluster Toolkit", support.cluster_toolkit),
        ),
        "vertex-ai": (
            ("training clusters", support.vertex_training_clusters),
            ("custom jobs", support.vertex_ai),
        ),
        "cloud-run": (("services", support.cloud_run),),
    }
    if case.machine.provider != "google":
        return
    products = [name for name, answer in support_of[platform] if answer not in (None, "no")]
    if products:
        yield f"with {' or '.join(products)}"
    else:
        yield f"support for {case.machine.name} is not documented"
