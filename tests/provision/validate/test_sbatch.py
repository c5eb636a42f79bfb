"""Validation of batch scripts: options, values, and what sbatch ignores."""

from __future__ import annotations

import pytest

from gpuyard.provision.artefact import Artefact
from gpuyard.provision.validate.sbatch import SbatchOption, read_options

from ..trees import check


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/bash", "#SBATCH --time=60", *lines, "srun hostname", ""])


def findings(text: str) -> list[str]:
    return [
        finding.what
        for finding in check(Artefact(name="x.sbatch", text=text)).findings
        if finding.rule == "sbatch"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--nodes=4-8",
        "-N 4",
        "-N4",
        "--gpus-per-node=h200:8",
        "-G 8",
        "--gres=gpu:8",
        "--gres=gpu:h100:8,shard:2",
        "--mem=0",
        "--mem=400G",
        "--time=1-12:30:00",
        "-t 90",
        "--switches=1@01:00:00",
        "--exclusive",
        "--exclusive=user",
        "--container-image=docker://nvcr.io#nvidia/pytorch:25.01-py3",
        "--segment=16",
        "--job-name='a name' --ntasks=8",
        "-J x -p gpu  # a comment",
        "--array=0-15%4",
        "--nice",
        "--signal=B:USR1@120",
    ],
)
def test_valid_option_has_no_finding(line: str) -> None:
    assert findings(script(f"#SBATCH {line}")) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("--node=4", 'no option "--node"'),
        ("--gpu-per-node=8", 'no option "--gpu-per-node"'),
        ("--nodes=four", "not a number of nodes"),
        ("--nodes=$N", "does not expand variables"),
        ("--time=4h", "not minutes"),
        ("--mem=80GiB", "not megabytes"),
        ("--gpus-per-node=eight", "not a number of GPUs"),
        ("--ntasks-per-node", "has no value"),
        ("--contiguous=yes", "takes no value"),
        ("--quite-something-else", "no option"),
    ],
)
def test_invalid_option_is_reported(line: str, what: str) -> None:
    (finding,) = findings(script(f"#SBATCH {line}"))
    assert what in finding


def test_option_after_first_command_is_reported() -> None:
    text = "#!/bin/bash\n#SBATCH --time=60\nmodule load cuda\n#SBATCH --nodes=2\n"
    assert findings(text) == ["--nodes is ignored because it comes after the first command"]


def test_options_in_a_heredoc_are_ignored() -> None:
    text = "#!/bin/bash\n#SBATCH --time=60\ncat > other.sh <<EOF\n#SBATCH --nodes=x\nEOF\n"
    assert findings(text) == []


def test_script_without_shebang_is_an_error() -> None:
    assert findings("#SBATCH --time=60\nsrun hostname\n") == [
        "sbatch rejects a script without #! on its first line"
    ]


def test_options_are_parsed_with_their_lines() -> None:
    assert read_options("#!/bin/bash\n\n#SBATCH -N 2 --exclusive\n") == (
        SbatchOption(name="nodes", value="2", line=3, is_read=True),
        SbatchOption(name="exclusive", value=None, line=3, is_read=True),
    )
