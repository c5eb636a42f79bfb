"""Sample blueprints: one per machine, shape of work and consumption option of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint, Shape
from gpuyard.blueprint.make import consumption_options
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.platforms import TaskName
from gpuyard.plan.option import Bill, Cluster, Option, ParallelLayout, Suitability
from gpuyard.plan.service import Autoscaling, EngineCommand, LatencyStats, Service
from gpuyard.units import DAY_S
from gpuyard.workload.sections import Data, Graphics, Traffic
from gpuyard.workload.where import ConsumptionName, PlatformChoice, Where
from gpuyard.workload.workload import Workload

SHAPES: tuple[Shape, ...] = ("multi-node", "single-node", "service", "workstations")
TASKS: dict[Shape, TaskName] = {
    "multi-node": "pretraining",
    "single-node": "finetuning",
    "service": "inference",
    "workstations": "graphics",
}
MODEL = "llama-3-8b"
NVLINK_DOMAIN = 18  # machines of an A4X domain
CLOUD: tuple[PlatformChoice, ...] = ("gke", "compute-engine", "slurm", "vertex-ai", "cloud-run")
OWN: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
SESSIONS = 4  # on two machines


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintSample:
    """A machine, a shape of work and a consumption option."""

    machine: Machine
    shape: Shape
    consumption: ConsumptionName | None


def samples(catalog: Catalog) -> Iterator[BlueprintSample]:
    """Yield every available accelerator machine in every shape and consumption option."""
    for machine in catalog.machines:
        if not machine.is_accelerated or machine.provider not in ("google", "onprem"):
            continue
        options: tuple[ConsumptionName | None, ...] = (None,)
        if machine.provider == "google":
            options = consumption_options(machine, Workload(name="any", task="finetuning"))
        for shape in SHAPES:
            if shape == "multi-node" and not machine.multi_host:
                continue
            if shape == "workstations" and machine.vws_api_name is None:
                continue
            yield from (
                BlueprintSample(machine=machine, shape=shape, consumption=option)
                for option in options
            )


def sample_blueprint(
    sample: BlueprintSample, catalog: Catalog, machines_per_replica: int = 1
) -> Blueprint:
    """Return a blueprint of two machines or replicas, an A4X domain, or one machine."""
    machine = sample.machine
    count = {
        "multi-node": NVLINK_DOMAIN if _is_a4x(machine) else 2,
        "single-node": 1,
        "service": 2 * machines_per_replica,
        "workstations": 2,
    }[sample.shape]
    return Blueprint(
        workload=_workload(sample, catalog),
        option=_option(sample, count, machines_per_replica),
        machine=machine,
        chip=next((chip for chip in catalog.chips if chip.name == machine.chip), None),
        consumption=sample.consumption,
        profile="sample",
    )


def _workload(sample: BlueprintSample, catalog: Catalog) -> Workload:
    where = Where(provider="onprem")
    if sample.machine.provider == "google":
        where = Where(zone="us-central1-b")
    if sample.shape == "workstations":
        return Workload(
            name="workstations",
            task="graphics",
            graphics=Graphics(use="virtual-workstation", sessions_count=SESSIONS, resolution="4k"),
            where=where,
        )
    is_service = sample.shape == "service"
    return Workload(
        name=f"{MODEL}-{sample.shape}",
        task=TASKS[sample.shape],
        model=next(row for row in catalog.models if row.name == MODEL),
        data=None if is_service else Data(location="gs://sample-data/tokens"),
        traffic=Traffic(input_tokens=1000, output_tokens=200) if is_service else None,
        where=where,
    )


def _is_a4x(machine: Machine) -> bool:
    domain = machine.scale_up_domain_count or 0
    is_rack = machine.chip_count == 4 and domain > 2 * machine.chip_count
    return machine.provider == "google" and is_rack and not _is_tpu(machine)


def _is_tpu(machine: Machine) -> bool:
    return (machine.chip or "").startswith("tpu")


def _option(sample: BlueprintSample, count: int, machines_per_replica: int) -> Option:
    # Only the fields that renderers read are realistic.
    machine = sample.machine
    is_workstation = sample.shape == "workstations"
    is_service = sample.shape == "service"
    chips = count * machine.chip_count
    platforms = CLOUD if machine.provider == "google" else OWN
    return Option(
        cluster=Cluster(
            machine=machine.name, machine_count=count, chip_count=chips, chip=machine.chip
        ),
        precision="bf16",
        step_s=1.0,
        step_parts=(),
        memory_bytes=1.0,
        memory_parts=(),
        memory_capacity_bytes=2.0,
        ideal_s=float(DAY_S),
        expected_s=float(DAY_S),
        error_ratio=0.2,
        bills=(_bill(sample.consumption, count),) if sample.consumption else (),
        platforms=tuple(
            Suitability(
                platform=name,
                suits=not is_workstation or name == "compute-engine",
                why="it is a sample",
            )
            for name in platforms
        ),
        network=machine.network.technology,
        arrangement=None if is_workstation else ParallelLayout(dp=max(1, int(chips))),
        service=_service(machine, count, machines_per_replica) if is_service else None,
    )


def _bill(consumption: ConsumptionName, machine_count: int) -> Bill:
    return Bill(
        consumption=consumption,
        region="us-central1",
        price="sample",
        usd_per_hour=10.0 * machine_count,
        billed_s=float(DAY_S),
        usd=240.0 * machine_count,
        expected_s=float(DAY_S),
    )


def _service(machine: Machine, count: int, machines_per_replica: int) -> Service:
    tp = max(1, int(machine.chip_count))
    name = "vllm-tpu" if _is_tpu(machine) else "vllm"
    commands = [f"vllm serve {MODEL} --tensor-parallel-size {tp}"]
    if machines_per_replica > 1:
        line = (
            f"{commands[0]} --pipeline-parallel-size {machines_per_replica} "
            f"--nnodes {machines_per_replica} --master-addr $HEAD"
        )
        commands = [
            f"{line} --node-rank {rank}{' --headless' if rank else ''}"
            for rank in range(machines_per_replica)
        ]
    latency = LatencyStats(mean_s=1.0, p50_s=1.0, p90_s=1.0, p99_s=1.0, error_ratio=0.2)
    return Service(
        replicas=count // machines_per_replica,
        spare_replicas=0,
        chips_per_replica=machine.chip_count * machines_per_replica,
        tp=tp,
        pp=machines_per_replica,
        weights="bf16",
        batch_count=8,
        max_sequences_count=64,
        e2e=latency,
        simulated=False,
        requests_per_s=1.0,
        output_tokens_per_s=200.0,
        tokens_per_s_per_chip=10.0,
        tokens_per_s_per_user=50.0,
        rate_error_ratio=0.2,
        engine=EngineCommand(name=name, label=name, command=tuple(commands)),
        autoscaling=Autoscaling(
            min_replicas=1, max_replicas=4, metric="requests", target=48, requests_per_s=1.0
        ),
    )
