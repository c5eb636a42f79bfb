"""Workload checks: every rule fires on a golden file, none on a valid file, and edge cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_yaml
from gpuyard.errors import InputError, Problem
from gpuyard.workload.checks.check_list import CHECKS, check_workload
from gpuyard.workload.model import find_model, no_files
from gpuyard.workload.read import parse_workload, resolve
from gpuyard.workload.workload import Workload, WorkloadFile

from .rows import CATALOG

GOLDEN = Path(__file__).parent.parent / "golden" / "errors"
PRE = "task: pretraining\nmodel: llama-3-70b\ndata: {tokens: 15T, sequence: 8192}\n"
FT = "task: finetuning\nmodel: llama-3-8b\ndata: {samples: 50k, sequence: 4096}\n"
INF = "task: inference\nmodel: llama-3-70b\ntraffic: {input: 1000, output: 200}\nrequirements: {requests: 20/s}\n"
HPC = "task: hpc\nhpc: {offload: 60%, bound: fp64, cpu_hours: 200k}\n"


def parse(text: str) -> Workload:
    return parse_workload(text, "w.yaml", CATALOG)


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def unchecked(path: Path) -> Workload | None:
    """Return the workload of a golden file before its checks, or None if it cannot be decoded."""
    try:
        spec = decode(read_yaml(path.read_text("utf-8"), path.name).root, WorkloadFile, Keys.BARE)
    except (InputError, UnicodeDecodeError):
        return None
    model = find_model(spec.model, CATALOG, no_files)
    return resolve(spec, None if isinstance(model, Problem) else model, path.name)


def test_every_rule_fires_on_golden_file() -> None:
    workloads = [
        workload
        for path in sorted(GOLDEN.glob("*.yaml"))
        if (workload := unchecked(path)) is not None
    ]
    fired = {
        finding.rule for workload in workloads for finding in check_workload(workload, CATALOG)
    }
    assert fired == set(CHECKS)


def test_finding_has_rule_id_and_key_path() -> None:
    workload = unchecked(GOLDEN / "lora-without-rank.yaml")
    assert workload is not None
    findings = check_workload(workload, CATALOG)
    assert [(finding.rule, finding.where) for finding in findings] == [("lora-rank", "training")]


@pytest.mark.parametrize(
    "text",
    [
        PRE
        + "where: {machines: [a3-*], exclude: [a3-mega*]}",  # exclude leaves a machine of the pattern
        PRE
        + "where: {machines: [a4x-highgpu-4g], consumption: [spot, reservation]}",  # one available option is enough
        PRE + "where: {machines: [a3-*], consumption: [on-demand]}",  # price-only is not a no
        PRE + "where: {machines: [A3-UltraGPU-8g]}",
        PRE + "where: {platform: vertex-ai, machines: [a3-ultragpu-8g]}",  # unknown is not a no
        PRE + "where: {machines: ['*-*g', ct6e-*]}\nrequirements: {framework: jax-xla}",
        PRE + "requirements: {framework: pytorch-xla}",  # TPUs run it
        PRE
        + "where: {provider: onprem, inventory: {DGX-H100: 16}, switch: QFX5240-64OD, platform: kubernetes}",
        PRE + "where: {engine: slurm}",
        PRE + "where: {region: us-west4}",  # a region without known prices
        PRE + "where: {region: us-central2}",
        PRE + "where: {zone: us-south1-ai1b}",
        PRE.replace("sequence: 8192", "sequence: 128k"),  # training may extend the context
        PRE + "training: {global_batch: 1}",
        FT + "training: {method: qlora, lora_rank: 4096}",
        FT.replace("samples: 50k", "tokens: 1M"),
        FT.replace("llama-3-8b", "resnet-50").replace(", sequence: 4096", ""),
        INF + "where: {platform: cloud-run, machines: [g2-*]}",
        INF.replace("200}", "7192}"),  # 1000 + 7192 = 8192, the context
        INF.replace("200}", "200, prefix_hit: 0%}"),
        INF.replace("200}", "200, prefix_hit: 100%}"),
        INF.replace("200}", "200, concurrency: 64}"),
        INF.replace("{requests: 20/s}", "{ttft: 1s}").replace("200}", "0, concurrency: 64}"),
        "task: inference\nmodel: bert-large\ntraffic: {input: 128}\nrequirements: {requests: 20/s}",
        "task: inference\nmodel: resnet-50\ntraffic: {}\nrequirements: {requests: 20/s}",
        "task: inference\nmodel: llama-3-70b\ntraffic: {trace: t.csv, prefix_hit: 10%}",
        HPC.replace("60%", "0"),
        HPC.replace("60%", "1"),
        HPC.replace("cpu_hours: 200k", "flop: 1e21"),
        HPC.replace("fp64, cpu_hours: 200k", "bandwidth, flop: 1e21, bytes_per_flop: 6"),
        HPC + "where: {platform: cloud-run}",  # a single process
        "task: graphics\ngraphics: {use: video, sessions: 3}\nrequirements: {deadline: 1d}",
        "task: graphics\ngraphics: {use: rendering, frames: 10, frame_time: 1s, measured_on: H100-SXM}",
    ],
)
def test_valid_workload_has_no_findings(text: str) -> None:
    assert parse(text)


@pytest.mark.parametrize(
    ("text", "where", "word"),
    [
        (
            HPC.replace("cpu_hours: 200k", "cpu_hours: 200k, mpi: true")
            + "where: {platform: cloud-run}",
            "where.platform",
            "MPI",
        ),
        (
            "task: graphics\ngraphics: {use: virtual-workstation, sessions: 2}\nwhere: {platform: cloud-run}",
            "where.platform",
            "display",
        ),
        ("task: graphics\ngraphics: {use: video}", "graphics", "sessions"),
        (
            "task: graphics\ngraphics: {use: video, sessions: 2, displays: 2}",
            "graphics.displays",
            "does not use",
        ),
        (INF.replace("200}", "7193}"), "traffic.output", "8192"),
        (INF.replace("1000", "9000"), "traffic.input", "8192"),
        (INF.replace("llama-3-70b", "resnet-50"), "traffic.input", "does not take tokens"),
        (
            FT.replace("llama-3-8b", "resnet-50") + "training: {method: lora, lora_rank: 4}",
            "training.method",
            "transformer",
        ),
        (FT + "training: {global_batch: 60k}", "training.global_batch", "50000 samples"),
        (PRE.replace("15T", "15T, epochs: -1"), "data.epochs", "not above zero"),
        (PRE + "where: {zone: us-centrl1-a}", "where.zone", "use us-central1 or us-central2, or"),
        (
            PRE + "where: {region: us-centrall1}",
            "where.region",
            "use us-central1 or us-central2, or",
        ),
        (PRE + "where: {region: us-east6}", "where.region", "use us-east5"),
        (
            PRE + "where: {region: mars-north1}",
            "where.region",
            "add [regions.mars-north1] to your own",
        ),
        (PRE + "where: {region: any}", "where.region", "like us-central1"),
        (PRE + "where: {region: Iowa}", "where.region", "like us-central1"),
        (PRE + "where: {region: us-central1-a}", "where.region", "not a region"),
        (
            PRE + "where: {machines: [g2-*], platform: slurm, exclude: [c3-*, g2-standard-96]}",
            "where.machines[0]",
            "excluded, by g2-standard-96",
        ),
        (
            PRE + "where: {provider: onprem, inventory: {dgx-h100: 1}, platform: cloud-run}",
            "where.platform",
            "provider onprem",
        ),
        (PRE + "requirements: {hourly_budget: $4/h}", "requirements.hourly_budget", "does not use"),
    ],
)
def test_workload_at_limit_reports_problem(text: str, where: str, word: str) -> None:
    assert any(f": {where}: " in problem and word in problem for problem in problems(text)), (
        problems(text)
    )


def test_all_problems_are_reported_in_line_order() -> None:
    lines = problems(
        "name: '?'\ntask: pretraining\nmodel: nothing\ndata: {tokens: 15T, sequence: 0.0001k}\ntraffic: {}\n"
        "where:\n  zone: x\n  machines: [y]\n".replace("0.0001k", "8k")
    )
    assert [line.split(": ")[1].rpartition(":")[2] for line in lines] == ["1", "3", "5", "7", "8"]
    assert [line.split(": ")[2] for line in lines] == [
        "name",
        "model",
        "traffic",
        "where.zone",
        "where.machines[0]",
    ]
