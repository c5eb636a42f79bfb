"""Slurm batch script of a task: srun, retries with backoff, and an atomic exit record."""

from __future__ import annotations

import shlex
from pathlib import Path

from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

BYTES_PER_MB = 1 << 20  # Slurm's M
SLACK_MINUTES = 2  # the script enforces the limit; Slurm's own limit is the fallback
FIRST_PORT, PORT_COUNT = 20_000, 12_000  # below the kernel's ephemeral ports

DATA = Path(__file__).parent / "data"
BODY = (DATA / "batch.sh").read_text(encoding="utf-8")

# Each process sees only its own chips of the node, in rank order. The exit code of the process that
# failed first is recorded, because srun returns the highest one, that of the processes it kills.
PROCESS = (DATA / "process.sh").read_text(encoding="utf-8")


def batch_script(task: Task, folder: str, spec: EngineSpec) -> str:
    """Return the script; `folder` holds the job's files."""
    srun = [
        f"--nodes={task.nodes}",
        f"--ntasks={task.processes}",
        f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}",
        "--kill-on-bad-exit=1",
    ]
    if task.processes > 1:
        srun.append("--label")
    lines = ["#!/bin/bash", f"# gpuyard: {task.id}", "set -u"]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in shared_environment(task, spec.interface)
    ]
    lines += [
        f"job={shlex.quote(folder)}",
        f"retries={task.retries} wait={task.backoff_s:g} max_wait={task.retry.max_s:g}",
        f"grace={task.grace_s:g}",
        f"limit={0 if task.time_limit_s is None else max(1, round(task.time_limit_s))}",
        f"final_codes=({' '.join(map(str, task.final_codes))})",
        f"first_port={FIRST_PORT} port_count={PORT_COUNT}",
        f"export chips={task.chips_per_process}",
        f"srun_options=({' '.join(shlex.quote(word) for word in srun)})",
        f"argv=({' '.join(shlex.quote(word) for word in task.argv)})",
        f"process={shlex.quote(PROCESS)}",
    ]
    return "\n".join(lines) + "\n" + BODY


def batch_options(task: Task, folder: str, spec: EngineSpec) -> tuple[str, ...]:
    """Return the sbatch options."""
    options = [
        f"--job-name={task.id}",
        f"--nodes={task.nodes}",
        f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}",
        f"--chdir={task.folder}",
        "--requeue",
        "--open-mode=append",
        f"--output={folder}/log" + ("-%a" if task.copies > 1 else ""),
    ]
    if task.copies > 1:
        options.append(f"--array=0-{task.copies - 1}")
    if task.chips_per_process:
        chips = task.chips_per_process * task.processes_per_node
        options.append(f"--gres={spec.chip_resource or 'gpu'}:{chips}")
    if task.memory_per_process_bytes is not None:
        options.append(
            f"--mem={-(-task.memory_per_process_bytes * task.processes_per_node // BYTES_PER_MB)}M"
        )
    if task.time_limit_s is not None:
        options.append(f"--time={int(task.time_limit_s + task.grace_s) // 60 + SLACK_MINUTES}")
    options += [f"--partition={spec.partition}"] if spec.partition else []
    options += [f"--account={spec.account}"] if spec.account else []
    return (*options, *spec.options)
