"""What an expert expects of the first option for each workload, as named checks.

The workloads are files under `workloads/`; `bench/scenarios.py` prints the same checks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.option import Option, Plan

WORKLOADS = Path(__file__).parent / "workloads"
CATALOG: Catalog = load_catalog()
Check = Callable[[Plan | Infeasible], bool]


def first(check: Callable[[Option], bool]) -> Check:
    """A check of the first option; an infeasible plan fails it."""
    return lambda plan: isinstance(plan, Plan) and check(plan.options[0])


def series(option: Option) -> str:
    return CATALOG.machine(option.cluster.machine).series


def consumption(option: Option) -> str:
    return option.bill.consumption if option.bill is not None else ""


def sure(option: Option) -> bool:
    return option.meets_limits


def runs_checkpoint(option: Option) -> bool:
    """The command loads a repository, and the option says which."""
    service = option.service
    if service is None:
        return False
    checkpoint = service.engine.checkpoint
    return "/" in checkpoint and any(checkpoint in line for line in service.engine.command)


def layout_is_data_parallel(option: Option) -> bool:
    layout = option.arrangement
    return layout is not None and (layout.tp, layout.pp, layout.cp) == (1, 1, 1)


def binds(key: str) -> Check:
    return lambda plan: isinstance(plan, Infeasible) and plan.binding == key


def fix_names(text: str) -> Check:
    return lambda plan: isinstance(plan, Infeasible) and text in plan.fix


def token_usd(option: Option) -> float:
    usd = option.service.usd_per_million_tokens if option.service is not None else None
    return math.inf if usd is None else usd


def _milliseconds(fix: str) -> float:
    match = re.search(r"([\d.]+)ms", fix)
    return float(match[1]) if match else math.inf


def provider(option: Option) -> str:
    return CATALOG.machine(option.cluster.machine).provider


def notes_say(text: str) -> Check:
    return lambda plan: isinstance(plan, Plan) and any(text in note for note in plan.notes)


CRITERIA: Mapping[str, Mapping[str, Check]] = {
    "any-cloud": {
        "meets the targets with confidence": first(sure),
        "a chip with published runs": first(lambda option: option.measured),
        "loads a published checkpoint": first(runs_checkpoint),
        "several clouds are compared": lambda plan: (
            isinstance(plan, Plan) and len({provider(option) for option in plan.options}) >= 4
        ),
        "says what runs clusters there": lambda plan: (
            isinstance(plan, Plan) and any("gpuyard provision" in note for note in plan.notes)
        ),
    },
    "desks-4k": {
        "at least four vCPUs per seat": first(
            lambda option: (
                (CATALOG.machine(option.cluster.machine).vcpu_count or 0)
                * option.cluster.machine_count
                >= 4 * 60
            )
        ),
        "seats share a GPU": first(lambda option: option.cluster.chip_count < 60),
    },
    "hpc-europe": {
        "no accelerators for code that uses none": first(lambda option: not option.cluster.chip),
        "machines with RDMA for MPI": first(lambda option: series(option) == "H4D"),
        "not on spot": first(lambda option: consumption(option) != "spot"),
    },
    "long-context": {
        "meets the targets with confidence": first(sure),
        "one machine": first(lambda option: option.cluster.machine_count == 1),
    },
    "my-cluster": {
        "the machines of the file": first(lambda option: option.cluster.machine_count == 64),
        "the pinned layout": first(
            lambda option: (
                option.arrangement is not None
                and (option.arrangement.tp, option.arrangement.pp) == (4, 4)
            )
        ),
        "says whether another layout is better": lambda plan: (
            isinstance(plan, Plan) and any("layout" in note for note in plan.notes)
        ),
    },
    "onprem-two-types": {
        "the faster machines": first(lambda option: option.cluster.machine == "dgx-h100"),
        "bf16": first(lambda option: option.precision == "bf16"),
    },
    "percentiles": {
        "meets both p95 with confidence": first(sure),
        "one chip with published runs": first(
            lambda option: option.measured and option.cluster.chip_count == 1
        ),
    },
    "pinned-tp1": {
        "TP1": first(
            lambda option: option.service is not None and option.service.chips_per_replica == 1
        ),
        "fits with 5 % free": first(
            lambda option: option.memory_bytes <= 0.951 * option.memory_capacity_bytes
        ),
        "meets the targets with confidence": first(sure),
    },
    "pretrain-aws": {
        "not on spot": first(lambda option: consumption(option) != "spot"),
        "meets the deadline with confidence": first(sure),
        "machines with EFA": first(
            lambda option: CATALOG.machine(option.cluster.machine).network.technology == "efa"
        ),
    },
    "serve-europe": {
        "offered and priced in europe-west4": first(
            lambda option: option.bill is not None and option.bill.region == "europe-west4"
        ),
        "meets the targets with confidence": first(sure),
        "one machine": first(lambda option: option.cluster.machine_count == 1),
    },
    "too-few-chips": {
        "the deadline is named": binds("requirements.deadline"),
        "the fix names the deadline": fix_names("raise deadline to "),
        "or the number of chips": fix_names("max_chips to "),
    },
    "ttft-too-short": {
        "the TTFT is named": binds("requirements.ttft"),
        "the fix raises it": fix_names("raise ttft to "),
    },
    "batch": {
        "an accelerator, not CPUs": first(lambda option: bool(option.cluster.chip)),
        "the least cost per token of chips with published runs": lambda plan: (
            isinstance(plan, Plan)
            and token_usd(plan.options[0])
            <= 1.1 * min(token_usd(option) for option in plan.options if option.measured)
        ),
    },
    "cloud-run": {
        "scales to zero on one L4": first(
            lambda option: (
                option.cluster.chip == "l4"
                and option.service is not None
                and option.service.serverless
            )
        ),
    },
    "cluster-too-small": {
        "the machines of the file": first(lambda option: option.cluster.machine_count == 2),
        "says that the target is at risk": first(lambda option: not option.meets_limits),
        "says how many machines meet it": notes_say("use 3 × a3-highgpu-8g"),
        "says which target they meet": notes_say("raise tpot to "),
    },
    "desks-many": {
        "at least four vCPUs per seat": first(
            lambda option: (
                (CATALOG.machine(option.cluster.machine).vcpu_count or 0)
                * option.cluster.machine_count
                >= 4 * 400
            )
        ),
        "few machines": first(lambda option: option.cluster.machine_count <= 50),
    },
    "mpi-bandwidth": {
        "machines with RDMA for MPI": first(lambda option: series(option) in ("A4", "H4D")),
        "not on spot": first(lambda option: consumption(option) != "spot"),
        "names the recommended machine without a price": notes_say("H4D, which the provider"),
    },
    "mpi-cpu": {
        "machines with RDMA for MPI": first(lambda option: series(option) == "H4D"),
        "meets the deadline with confidence": first(sure),
    },
    "native-fp8": {
        "the format of the published checkpoint": first(
            lambda option: option.service is not None and option.service.weights == "fp8-block"
        ),
        "loads a published checkpoint": first(runs_checkpoint),
        "no whole TP8, which cuts the blocks of scales": first(
            lambda option: (
                option.service is not None and (option.service.tp < 8 or option.service.ep > 1)
            )
        ),
        "meets the targets with confidence": first(sure),
    },
    "onprem-moe": {
        "measured machines": first(lambda option: option.cluster.machine == "dgx-h100"),
        "bf16": first(lambda option: option.precision == "bf16"),
        "meets the deadline with confidence": first(sure),
    },
    "pinned-onprem": {
        "the pinned layout and format": first(
            lambda option: (
                option.service is not None
                and (option.service.tp, option.service.weights) == (8, "bf16")
            )
        ),
        "the pinned engine": first(
            lambda option: option.service is not None and option.service.engine.name == "vllm"
        ),
    },
    "qlora-cheap": {
        "one GPU": first(lambda option: option.cluster.chip_count == 1),
        "meets the budget with confidence": first(sure),
    },
    "spot-only": {
        "the consumption is named": binds("where.consumption"),
        "the fix allows it": fix_names("consumption: [spot]"),
    },
    "tpot-too-short": {
        "the TPOT is named": binds("requirements.tpot"),
        "the fix is near what is possible": lambda plan: (
            isinstance(plan, Infeasible) and 8.0 < _milliseconds(plan.fix) < 25.0
        ),
    },
    "uneven-batch": {
        "the batch is named": binds("training.global_batch"),
        "the fix names a batch": fix_names("set global_batch to 480"),
    },
    "bud5": {
        "the budget is named": binds("requirements.hourly_budget"),
        "the fix raises the budget": lambda plan: (
            isinstance(plan, Infeasible) and plan.fix.startswith("raise hourly_budget to $")
        ),
    },
    "mixed": {
        "owned machines carry the load, or the inventory is named": lambda plan: (
            plan.binding == "where.inventory"
            if isinstance(plan, Infeasible)
            else series(plan.options[0]) != ""
        ),
    },
    "p3": {
        "meets the deadline with confidence": first(sure),
        "not on spot": first(lambda option: consumption(option) != "spot"),
        "at most 512 chips": first(lambda option: option.cluster.chip_count <= 512),
        "bf16": first(lambda option: option.precision == "bf16"),
    },
    "q1": {
        "a layout that QLoRA software runs": first(layout_is_data_parallel),
        "one machine": first(lambda option: option.cluster.machine_count == 1),
        "not on L4": first(lambda option: series(option) != "G2"),
        "meets deadline and budget with confidence": first(sure),
    },
    "q2": {
        "meets the deadline with confidence": first(sure),
        "margin of at least a fifth": first(lambda option: option.expected_s < 0.8 * 60 * 86400),
    },
    "s02": {
        "one machine": first(lambda option: option.cluster.machine_count == 1),
        "at most eight GPUs": first(lambda option: option.cluster.chip_count <= 8),
        "not on TPU": first(lambda option: not series(option).startswith("TPU")),
        "bf16": first(lambda option: option.precision == "bf16"),
    },
    "s03": {
        "at least eight GPUs per replica in fp8": first(
            lambda option: (
                option.service is not None
                and (option.service.chips_per_replica >= 8 or option.service.weights == "nvfp4")
            )
        ),
        "5 % of the memory is free": first(
            lambda option: option.memory_bytes <= 0.951 * option.memory_capacity_bytes
        ),
        "loads a published checkpoint": first(runs_checkpoint),
        "meets the targets with confidence": first(sure),
    },
    "s05": {
        "a chip with published runs": first(lambda option: option.measured),
        "meets the targets with confidence": first(sure),
        "loads a published checkpoint": first(runs_checkpoint),
    },
    "s09": {
        "offered and priced in europe-west4": first(
            lambda option: option.bill is not None and option.bill.region == "europe-west4"
        ),
        "at most 64 chips": first(lambda option: option.cluster.chip_count <= 64),
        "takes longer than an hour": first(lambda option: option.expected_s > 3600),
    },
    "s10": {
        "machines with RDMA for MPI": first(lambda option: series(option) == "H4D"),
        "not on spot": first(lambda option: consumption(option) != "spot"),
        "meets the deadline with confidence": first(sure),
    },
    "s17": {
        "a small GPU or a CPU": first(lambda option: series(option) in ("G2", "N1+T4", "C3")),
        "meets the p99 with confidence": first(sure),
    },
    "u2": {
        "at least eight vCPUs per seat": first(
            lambda option: (
                (CATALOG.machine(option.cluster.machine).vcpu_count or 0)
                * option.cluster.machine_count
                >= 8 * 60
            )
        ),
        "at least 32 GB per seat": first(
            lambda option: (
                CATALOG.machine(option.cluster.machine).memory_bytes * option.cluster.machine_count
                >= 32e9 * 60
            )
        ),
    },
    "v1": {
        "loads the planned format": first(runs_checkpoint),
        "meets the targets with confidence": first(sure),
        "a chip with published runs": first(lambda option: option.measured),
    },
    "w1": {
        "meets the targets with confidence": first(sure),
        "serves the instruction-tuned model": first(
            lambda option: (
                option.service is not None and "Instruct" in option.service.engine.checkpoint
            )
        ),
    },
    "z1": {
        "bf16": first(lambda option: option.precision == "bf16"),
        "one machine": first(lambda option: option.cluster.machine_count == 1),
        "says what fp8 would gain": first(
            lambda option: any("if your recipe allows" in reason for reason in option.reasons)
        ),
    },
}
