"""Batch scripts before a real Slurm: what lint accepts it accepts, and it refuses what it cannot hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.provision.artefact import Artefact

from ..slurm import Cluster, missing, slurm_cluster
from ..trees import check, sample

pytestmark = pytest.mark.skipif(
    bool(missing()) and os.environ.get("GPUYARD_REQUIRE_ALL") != "1", reason=missing() or "Slurm"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four virtual A3 Ultra nodes, two to a switch."""
    assert not missing(), missing()
    with slurm_cluster() as running:
        yield running


def submit(cluster: Cluster, text: str, tmp_path: Path) -> tuple[int, str]:
    """What `sbatch --test-only` answers to a script."""
    path = tmp_path / "job.sbatch"
    path.write_text(text)
    done = cluster.run("sbatch", "--test-only", str(path))
    return done.returncode, done.stderr


def script(**changes: str) -> str:
    """Our sample without the options of Pyxis, which this cluster has not, and with values changed."""
    text = sample("train.sbatch").text
    for name, value in changes.items():
        option = name.replace("_", "-")
        text, count = re.subn(rf"#SBATCH --{option}=.*", f"#SBATCH --{option}={value}", text)
        if not count:
            text = text.replace("set -euo", f"#SBATCH --{option}={value}\nset -euo")
    return text


def test_sbatch_accepts_the_sample(cluster: Cluster, tmp_path: Path) -> None:
    code, output = submit(cluster, script(), tmp_path)
    assert code == 0, output
    assert "to start at" in output


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus_per_node": "16"},
        {"gpus_per_node": "b200:8"},
        {"nodes": "5"},
        {"partition": "a4"},
        {"mem": "9000G"},
        {"nodes": "3", "switches": "1"},
    ],
)
def test_sbatch_rejects_what_the_cluster_lacks(
    cluster: Cluster, tmp_path: Path, changes: dict[str, str]
) -> None:
    code, output = submit(cluster, script(**changes), tmp_path)
    assert code != 0
    assert "allocation failure" in output


def test_sbatch_uses_the_topology(cluster: Cluster, tmp_path: Path) -> None:
    code, output = submit(cluster, script(nodes="4", switches="2"), tmp_path)
    assert code == 0, output


@pytest.mark.parametrize(
    "line",
    [
        "--node=4",
        "--nodes=four",
        "--nodes=$N",
        "--time=4h",
        "--mem=80GiB",
        "--gpus-per-node=eight",
        "--contiguous=yes",
        "--ntasks-per-node",
    ],
)
def test_sbatch_rejects_what_lint_rejects(cluster: Cluster, tmp_path: Path, line: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {line}\nsrun hostname\n"
    assert any(
        finding.rule == "sbatch" for finding in check(Artefact(name="x.sbatch", text=text)).errors
    )
    code, output = submit(cluster, text, tmp_path)
    assert code != 0, output


@pytest.mark.parametrize(
    "line",
    [
        "--nodes=2-4",
        "-N2",
        "--gpus-per-node=h200:8",
        "--gres=gpu:8",
        "--mem=400G",
        "--time=1-12:30:00",
        "-t 90",
        "--switches=1@01:00:00",
        "--exclusive=user",
        "--job-name='a name' --ntasks=8",
        "--signal=B:USR1@120",
    ],
)
def test_sbatch_accepts_what_lint_accepts(cluster: Cluster, tmp_path: Path, line: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {line}\nsrun hostname\n"
    assert check(Artefact(name="x.sbatch", text=text)).errors == ()
    code, output = submit(cluster, text, tmp_path)
    assert code == 0, output
