"""Invariants of launch commands: processes, nodes and addresses agree with what is requested."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import PodTemplate
from gpuyard.provision.invariants.sources import SBATCH

TORCHRUN = "PyTorch: torchrun (docs.pytorch.org/docs/stable/elastic/run.html, 2026-11)"
JOBSET = "JobSet at 08dfbdf (2026-08-18): pod names and DNS"
PROCESSES = re.compile(r"--nproc[-_]per[-_]node[=\s]+[\"']?(\d+)\b")
# A number alone; min:max of elastic jobs is another matter.
NODES = re.compile(r"--nnodes[=\s]+[\"']?(\d+)(?![\d:])")
NODE_VARIABLES = ("NNODES", "NODE_COUNT", "NUM_NODES")


@invariant("processes-per-node", applies_to=f"pods with torchrun; {SBATCH}", source=TORCHRUN)
def processes_match_gpus(bundle: LintBundle) -> Iterator[Finding]:
    """The launcher starts one process per GPU of the node."""
    for pod in bundle.pods:
        for box in pod.workers:
            gpus = pod.gpu_count if len(pod.workers) == 1 else 0
            for count in _numbers(PROCESSES, pod.script) if gpus else ():
                yield from _processes(box, count, int(gpus))
    for script in bundle.documents:
        if script.kind == "sbatch" and script.root.pairs:
            gpus = _gpus_of_script(script.root)
            for count in _numbers(PROCESSES, script.text) if gpus else ():
                yield from _processes(script.root, count, gpus)


def _numbers(pattern: re.Pattern[str], text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in pattern.findall(text)))


def _processes(view: ValueView, count: int, gpus: int) -> Iterator[Finding]:
    if count > gpus:
        what = f"{count} processes per node for {gpus} GPUs: the others find no GPU"
        yield view.error(what, f"use --nproc-per-node={gpus}, or request {count} GPUs")
    elif count < gpus:
        what = f"{count} processes per node for {gpus} GPUs: {gpus - count} stay idle"
        yield view.warning(what, f"use --nproc-per-node={gpus}, or request {count} GPUs")


def _gpus_of_script(root: ValueView) -> int:
    for key in ("gpus-per-node", "gres"):
        text = root[key].text or (str(root[key].value) if root[key].is_set else "")
        match = re.search(r"(\d+)$", text)
        if match and (key == "gpus-per-node" or "gpu" in text):
            return int(match.group(1))
    return 0


@invariant("node-count", applies_to=f"jobs with torchrun; {SBATCH}", source=TORCHRUN)
def node_counts_agree(bundle: LintBundle) -> Iterator[Finding]:
    """The number of nodes in the launch command is the number that the job requests."""
    for pod in bundle.pods:
        if not pod.is_batch or not _is_alone(pod):
            continue
        pods = int(pod.replica_count)
        variables = (
            int(row["value"].text)
            for box in pod.workers or pod.containers
            for row in box["env"].items
            if row["name"].text in NODE_VARIABLES and row["value"].text.isdigit()
        )
        for count in dict.fromkeys((*_numbers(NODES, pod.script), *variables)):
            if count not in (pods, _pods_per_slice(pod)):
                yield pod.template.error(*_nodes(count, pods, "pods"))
    for script in bundle.documents:
        nodes = script.root["nodes"].number if script.kind == "sbatch" else None
        for count in _numbers(NODES, script.text) if nodes else ():
            if count != nodes:
                yield script.root["nodes"].error(*_nodes(count, int(nodes or 0), "nodes"))


def _nodes(count: int, requested: int, what: str) -> tuple[str, str]:
    return (
        f"the launcher waits for {count} nodes, and the job has {requested} {what}",
        f"set both to the same number: --nnodes={requested}, or request {count} {what}",
    )


def _pods_per_slice(pod: PodTemplate) -> int:
    """Pods of one job of a JobSet: the hosts of a TPU slice count themselves."""
    jobs = pod.owner.root.at("spec", "replicatedJobs").items
    return int(jobs[0].at("template", "spec", "parallelism").number or 1) if jobs else 0


def _is_alone(pod: PodTemplate) -> bool:
    """Whether the object has one group of pods, so that its size is the job's."""
    return len(pod.owner.root.at("spec", "replicatedJobs").items) <= 1


@invariant("master-address", applies_to="JobSet", source=JOBSET)
def master_address_is_of_the_job(bundle: LintBundle) -> Iterator[Finding]:
    """MASTER_ADDR is the DNS name of a pod of the JobSet."""
    for pod in bundle.pods:
        root = pod.owner.root
        name = root.at("metadata", "name").text
        if pod.owner.kind_name != "JobSet" or not name:
            continue
        subdomain = root.at("spec", "network", "subdomain").text or name
        jobs = [job["name"].text for job in root.at("spec", "replicatedJobs").items]
        for box in pod.workers or pod.containers:
            for row in box["env"].items:
                value = row["value"]
                if row["name"].text == "MASTER_ADDR" and not _is_pod(value.text, name, jobs):
                    first = f"{name}-{jobs[0]}-0-0.{subdomain}" if jobs else name
                    yield value.error(f'"{value.text}" is no pod of this JobSet', f"use {first}")


def _is_pod(address: str, name: str, jobs: list[str]) -> bool:
    # Another host, or a value that a shell or controller fills in, is not ours to judge.
    if not re.fullmatch(r"[a-z0-9.-]*-\d+-\d+(\.[a-z0-9.-]+)?", address):
        return True
    host = address.partition(".")[0]
    return any(re.fullmatch(rf"{re.escape(f'{name}-{job}')}-\d+-\d+", host) for job in jobs)
