"""Proof of admission for Slurm: tree and block topology."""

from __future__ import annotations

import pytest

from gpuyard.errors import InputError
from gpuyard.provision.admission.admission import Admission
from gpuyard.provision.admission.slurm import (
    host_names,
    slurm_admissions,
    slurm_jobs,
    slurm_state,
)
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.file_kinds import read_documents

TREE = (
    "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]\nSwitchName=s1 Level=0 Nodes=n[4-7]\n"
    "SwitchName=top Level=1 Nodes=n[0-7] Switches=s[0-1]\n"
)
BLOCKS = (
    "BlockName=b0 BlockIndex=0 Nodes=n[0-3] BlockSize=4\nBlockName=b1 Nodes=n[4-7] BlockSize=4\n"
)


def state(topology: str, busy: tuple[int, ...] = (), down: tuple[int, ...] = ()) -> str:
    def word(n: int) -> str:
        return "ALLOCATED" if n in busy else "IDLE+DRAIN" if n in down else "IDLE"

    return topology + "".join(
        f"NodeName=n{n} Arch=x86_64 Gres=gpu:h200:8(S:0-1) Partitions=all State={word(n)} Weight=1\n"
        for n in range(8)
    )


def admission(options: str, text: str) -> Admission:
    lines = "".join(f"#SBATCH {option}\n" for option in options.split())
    script = Artefact(name="train.sbatch", text=f"#!/bin/bash\n{lines}srun hostname\n")
    (found,) = slurm_admissions(tuple(slurm_jobs(read_documents(script)[0])), slurm_state(text))
    return found


def test_host_lists_are_expanded() -> None:
    assert host_names("a[0-2,07],b") == ("a0", "a1", "a2", "a07", "b")
    assert host_names("r[0-1]n[2-3]") == ("r0n2", "r0n3", "r1n2", "r1n3")


@pytest.mark.parametrize(
    "topology",
    [
        "BlockName=b0 Nodes=n[0-3] BlockSize=four",
        "BlockSizes=x,y",
        "SwitchName=s0 Nodes=n[0-,3]",
        "SwitchName=s0 Nodes=n[0-99999999999]",
        "SwitchName=s0 Nodes=n[0-9999]m[0-9999]",
    ],
)
def test_a_topology_that_cannot_be_read_is_wrong_input(topology: str) -> None:
    with pytest.raises(InputError, match="--cluster"):
        slurm_state(topology)


def test_job_within_one_leaf_switch() -> None:
    options = "--nodes=4 --gpus-per-node=8 --switches=1"
    assert admission(options, state(TREE)).verdict == "placed"
    waits = admission(options, state(TREE, busy=(0, 5)))
    assert waits.verdict == "waits"
    assert "at most 3 of them in one leaf switch" in waits.what
    never = admission(options.replace("nodes=4", "nodes=6"), state(TREE))
    assert never.verdict == "never"
    assert never.changes == ("--switches=2 instead of 1", "--nodes=4 instead of 6")


def test_segments_lie_inside_blocks() -> None:
    options = "--nodes=6 --gpus-per-node=8 --segment=3"
    assert admission(options, state(BLOCKS)).verdict == "placed"
    drained = admission(options, state(BLOCKS, down=(0, 1)))
    assert drained.verdict == "never"
    assert drained.changes[0] == "--segment=2 instead of 3"


def test_job_without_segments_takes_as_few_blocks_as_its_size_needs() -> None:
    assert admission("--nodes=4 --gpus-per-node=8", state(BLOCKS)).verdict == "placed"
    waits = admission("--nodes=4 --gpus-per-node=8", state(BLOCKS, busy=(0, 4)))
    assert waits.verdict == "waits"
    assert waits.changes[0] == "--segment=2"


def test_gpus_and_partition_filter_nodes() -> None:
    assert admission("--nodes=1 --gpus-per-node=16", state(TREE)).verdict == "never"
    assert admission("--nodes=1 --partition=none", state(TREE)).verdict == "never"
    assert admission("--nodes=1 --gres=gpu:8 --partition=all", state(TREE)).verdict == "placed"
