"""Decisions to try platforms with: one for each machine, shape of work and way of paying that the catalog allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint, Shape, ways_of
from gpuyard.catalog import Catalog, Machine, Task
from gpuyard.plan import Arrangement, Autoscaling, Bill, Cluster, Engine, Option, Service, Spread, Suitability
from gpuyard.workload import ConsumptionName, Data, Graphics, PlatformChoice, Traffic, Where, Workload

__all__ = ["SHAPES", "Sample", "sample_blueprint", "samples"]

SHAPES: tuple[Shape, ...] = ("multi-node", "single-node", "service", "desks")
MODEL = "llama-3-8b"
DAY_S = 86_400.0
NVLINK_DOMAIN = 18  # machines of an A4X domain
CLOUD: tuple[PlatformChoice, ...] = ("gke", "compute-engine", "slurm", "vertex-ai", "cloud-run")
OWN: tuple[PlatformChoice, ...] = ("slurm", "kubernetes")
TASKS: dict[Shape, Task] = {
    "multi-node": "pretraining",
    "single-node": "finetuning",
    "service": "inference",
    "desks": "graphics",
}
SEATS = 4  # on two machines


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A machine, a shape of work and a way of paying."""

    machine: Machine
    shape: Shape
    way: ConsumptionName | None


def samples(catalog: Catalog) -> Iterator[Sample]:
    """Every machine with accelerators that is offered, for every shape that it can do, by every way."""
    for machine in catalog.machines:
        if not machine.is_accelerated or machine.provider not in ("google", "onprem"):
            continue
        ways: tuple[ConsumptionName | None, ...] = (None,)
        if machine.provider == "google":
            ways = ways_of(machine, Workload(name="any", task="finetuning"))
        for shape in SHAPES:
            if shape == "multi-node" and not machine.multi_host:
                continue  # each is a slice by itself
            if shape == "desks" and machine.vws_api_name is None:
                continue  # nobody sits at it
            yield from (Sample(machine=machine, shape=shape, way=way) for way in ways)


def sample_blueprint(sample: Sample, catalog: Catalog, machines_per_replica: int = 1) -> Blueprint:
    """A decision of that kind: two machines or replicas, a whole domain of A4X, one machine alone."""
    machine = sample.machine
    domain = bool(machine.scale_up_domain_count and machine.scale_up_domain_count > 2 * machine.chip_count)
    whole = machine.provider == "google" and machine.chip_count == 4 and domain and not _is_tpu(machine)
    together = NVLINK_DOMAIN if whole else 2
    count = {"multi-node": together, "single-node": 1, "service": 2 * machines_per_replica, "desks": 2}[sample.shape]
    model = next(row for row in catalog.models if row.name == MODEL)
    desks = sample.shape == "desks"
    workload = Workload(
        name="desks" if desks else f"{MODEL}-{sample.shape}",
        task=TASKS[sample.shape],
        model=None if desks else model,
        data=None if sample.shape in ("service", "desks") else Data(location="gs://sample-data/tokens"),
        graphics=Graphics(use="virtual-workstation", sessions_count=SEATS, resolution="4k") if desks else None,
        traffic=Traffic(input_tokens=1000, output_tokens=200) if sample.shape == "service" else None,
        where=Where(zone="us-central1-b") if machine.provider == "google" else Where(provider="onprem"),
    )
    return Blueprint(
        workload=workload,
        option=_option(sample, count, machines_per_replica),
        machine=machine,
        chip=next((chip for chip in catalog.chips if chip.name == machine.chip), None),
        way=sample.way,
        profile="sample",
    )


def _is_tpu(machine: Machine) -> bool:
    """A TPU machine."""
    return (machine.chip or "").startswith("tpu")


def _option(sample: Sample, count: int, machines_per_replica: int) -> Option:
    """An option with the fields that renderers read."""
    machine = sample.machine
    chips = count * machine.chip_count
    bill = Bill(
        way=sample.way, region="us-central1", price="sample", usd_per_hour=10.0 * count, billed_s=DAY_S,
        usd=240.0 * count, expected_s=DAY_S,
    ) if sample.way else None  # fmt: skip
    names = CLOUD if machine.provider == "google" else OWN
    return Option(
        cluster=Cluster(machine=machine.name, machine_count=count, chip_count=chips, chip=machine.chip),
        precision="bf16",
        step_s=1.0,
        step_parts=(),
        memory_bytes=1.0,
        memory_parts=(),
        memory_capacity_bytes=2.0,
        ideal_s=DAY_S,
        expected_s=DAY_S,
        error_ratio=0.2,
        bills=(bill,) if bill else (),
        platforms=tuple(
            Suitability(platform=name, suits=sample.shape != "desks" or name == "compute-engine", why="it is a sample")
            for name in names
        ),
        network=machine.network.technology,
        arrangement=None if sample.shape == "desks" else Arrangement(dp=max(1, int(chips))),
        service=_service(machine, count, machines_per_replica) if sample.shape == "service" else None,
    )


def _service(machine: Machine, count: int, machines_per_replica: int) -> Service:
    """A service of vLLM, one replica a machine or over several."""
    tp = max(1, int(machine.chip_count))
    name = "vllm-tpu" if _is_tpu(machine) else "vllm"
    line = f"vllm serve {MODEL} --tensor-parallel-size {tp}"
    if machines_per_replica > 1:
        line += f" --pipeline-parallel-size {machines_per_replica}"
    joined = f"{line} --nnodes {machines_per_replica} --master-addr $HEAD"
    ranks = [f" --node-rank {rank}{' --headless' if rank else ''}" for rank in range(machines_per_replica)]
    lines = tuple(joined + rank for rank in ranks) if machines_per_replica > 1 else (line,)
    spread = Spread(mean_s=1.0, p50_s=1.0, p90_s=1.0, p99_s=1.0, error_ratio=0.2)
    return Service(
        replicas=count // machines_per_replica,
        spare_replicas=0,
        chips_per_replica=machine.chip_count * machines_per_replica,
        tp=tp,
        pp=machines_per_replica,
        weights="bf16",
        batch_count=8,
        most_sequences_count=64,
        e2e=spread,
        simulated=False,
        requests_per_s=1.0,
        output_tokens_per_s=200.0,
        tokens_per_s_per_chip=10.0,
        tokens_per_s_per_user=50.0,
        rate_error_ratio=0.2,
        engine=Engine(name=name, label=name, command=lines),
        autoscaling=Autoscaling(least_replicas=1, most_replicas=4, metric="requests", target=48, requests_per_s=1.0),
    )
