"""Rules of batch scripts for Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import Part, View

__all__ = ["script_ends", "script_sets_up_nccl", "script_takes_whole_nodes", "tasks_fit_the_gpus"]


def _scripts(bundle: Bundle) -> Iterator[Part]:
    """Scripts that have batch options."""
    return (part for part in bundle.parts if part.kind == "sbatch" and isinstance(part.body, dict) and part.body)


def _gpus(root: View) -> int:
    """GPUs a node that the script asks for."""
    for text in (root["gpus-per-node"].text, root["gres"].text):
        found = re.search(r"(\d+)$", text)
        if found and ("gpu" in text or text == root["gpus-per-node"].text):
            return int(found.group(1))
    return 0


def _nodes(root: View) -> int:
    """The least nodes that the script asks for."""
    found = re.match(r"\d+", root["nodes"].text)
    return int(found.group(0)) if found else 1


def script_ends(bundle: Bundle) -> Iterator[Hit]:
    """A batch job has a time limit of its own."""
    for part in _scripts(bundle):
        if not part.root["time"].is_set:
            what = "no time limit: the job runs until the partition's"
            yield Hit(view=part.root, what=what, fix="add #SBATCH --time=...", severity="warning")


def script_takes_whole_nodes(bundle: Bundle) -> Iterator[Hit]:
    """A job of several GPU nodes takes them whole."""
    for part in _scripts(bundle):
        root = part.root
        whole = root["exclusive"].is_set or root["mem"].text == "0"
        if _nodes(root) > 1 and _gpus(root) and not whole:
            what = "several GPU nodes that other jobs may share"
            yield Hit(view=root, what=what, fix="add #SBATCH --exclusive and --mem=0", severity="warning")


def tasks_fit_the_gpus(bundle: Bundle) -> Iterator[Hit]:
    """One task a node (a launcher) or one a GPU."""
    for part in _scripts(bundle):
        root = part.root
        tasks, gpus = root["ntasks-per-node"].number, _gpus(root)
        if tasks and gpus and tasks not in (1, gpus):
            what = f"{tasks:g} tasks for {gpus} GPUs a node"
            yield Hit(view=root["ntasks-per-node"], what=what, fix=f"use 1 (torchrun) or {gpus}", severity="warning")
        launches = "torchrun" in part.text and not re.search(r"srun[^\n]*ntasks-per-node", part.text)
        if gpus > 1 and tasks == gpus and launches:
            what = f"{gpus} tasks a node, and torchrun in each: {gpus * gpus} processes"
            fix = "use --ntasks-per-node=1 with torchrun"
            yield Hit(view=root["ntasks-per-node"], what=what, fix=fix, severity="warning")


def script_sets_up_nccl(bundle: Bundle) -> Iterator[Hit]:
    """A script that mounts a fabric's plugin also sources its settings."""
    for part in _scripts(bundle):
        text = part.text
        if "/usr/local/gib" in text and not re.search(r"set_nccl_env|NCCL_NET=.?gIB", text):
            fix = "source /usr/local/gib/scripts/set_nccl_env.sh and set NCCL_NET=gIB"
            yield Hit(view=part.root, what="the gIB plugin is mounted and not used", fix=fix, severity="warning")
        if "/var/lib/tcpxo" in text and not re.search(r"nccl-env-profile|NCCL_FASTRAK", text):
            fix = "source /var/lib/tcpxo/lib64/nccl-env-profile.sh"
            yield Hit(view=part.root, what="the TCPXO plugin is mounted and not used", fix=fix, severity="warning")
