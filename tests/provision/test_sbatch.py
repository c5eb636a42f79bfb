"""Batch scripts: options, their values, and what sbatch does not read."""

from __future__ import annotations

import pytest

from gpuyard.provision import Artefact
from gpuyard.provision.validate.sbatch import Option, read_options

from .trees import check


def script(*lines: str) -> str:
    """A script with these option lines and a time limit."""
    return "\n".join(["#!/bin/bash", "#SBATCH --time=60", *lines, "srun hostname", ""])


def said(text: str) -> list[str]:
    """What lint says of the script's options."""
    return [
        finding.what for finding in check(Artefact(name="x.sbatch", text=text)).findings if finding.rule == "sbatch"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--nodes=4-8", "-N 4", "-N4", "--gpus-per-node=h200:8", "-G 8", "--gres=gpu:8", "--gres=gpu:h100:8,shard:2",
        "--mem=0", "--mem=400G", "--time=1-12:30:00", "-t 90", "--switches=1@01:00:00", "--exclusive",
        "--exclusive=user", "--container-image=docker://nvcr.io#nvidia/pytorch:25.01-py3", "--segment=16",
        "--job-name='a name' --ntasks=8", "-J x -p gpu  # a comment", "--array=0-15%4", "--nice", "--signal=B:USR1@120",
    ],
)  # fmt: skip
def test_right_options(line: str) -> None:
    assert said(script(f"#SBATCH {line}")) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("--node=4", 'no option "--node"'),
        ("--gpu-per-node=8", 'no option "--gpu-per-node"'),
        ("--nodes=four", 'not a number of nodes'),
        ("--nodes=$N", "does not expand variables"),
        ("--time=4h", "not minutes"),
        ("--mem=80GiB", "not megabytes"),
        ("--gpus-per-node=eight", "not a number of GPUs"),
        ("--ntasks-per-node", "has no value"),
        ("--contiguous=yes", "takes no value"),
        ("--quite-something-else", "no option"),
    ],
)  # fmt: skip
def test_wrong_options(line: str, what: str) -> None:
    (found,) = said(script(f"#SBATCH {line}"))
    assert what in found


def test_options_after_a_command_are_not_read() -> None:
    text = "#!/bin/bash\n#SBATCH --time=60\nmodule load cuda\n#SBATCH --nodes=2\n"
    assert said(text) == ["--nodes is ignored: it stands after a command"]


def test_options_of_a_script_inside_a_script_are_not_its_own() -> None:
    text = "#!/bin/bash\n#SBATCH --time=60\ncat > other.sh <<EOF\n#SBATCH --nodes=x\nEOF\n"
    assert said(text) == []


def test_a_script_needs_its_first_line() -> None:
    assert said("#SBATCH --time=60\nsrun hostname\n") == ["sbatch refuses a script without #! on its first line"]


def test_options_are_read_with_their_lines() -> None:
    assert read_options("#!/bin/bash\n\n#SBATCH -N 2 --exclusive\n") == (
        Option(name="nodes", value="2", line=3, is_read=True),
        Option(name="exclusive", value=None, line=3, is_read=True),
    )
