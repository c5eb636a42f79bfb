"""Slurm without a Slurm: the script, the options, and what scontrol says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.jobs.engines.slurm.queue import elements
from gpuyard.jobs.engines.slurm.script import PROCESS, batch_options, batch_script
from gpuyard.jobs.engines.slurm.slurm_engine import SlurmEngine
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

TASK = Task(
    id="train-1", argv=("python", "a b.py", "it's", "$HOME"), folder="/mnt/my jobs", nodes=2, processes_per_node=8,
    chips_per_process=1, cores_per_process=12, memory_per_process_bytes=10 * 2**30, time_limit_s=5400.0, retries=2,
    env=(("NAME", "a 'b' $c"),),
)  # fmt: skip
SPEC = EngineSpec(
    name="slurm", partition="a3", account="lab", options=("--qos=high",), interface="eth1"
)
# `scontrol --oneliner show job` of Slurm 22.05, shortened.
SHOWN = """JobId=5 ArrayJobId=4 ArrayTaskId=0 JobName=x JobState=COMPLETED Reason=None Restarts=0 ExitCode=0:0 StartTime=2026-11-16T04:52:33 EndTime=2026-11-16T04:52:34 Command=/x/JobState=FAILED
JobId=6 ArrayJobId=4 ArrayTaskId=1 JobName=x JobState=RUNNING Reason=None Restarts=1 ExitCode=0:0 StartTime=2026-11-16T04:52:33 EndTime=Unknown
JobId=4 ArrayJobId=4 ArrayTaskId=2-4,9%2 JobName=x JobState=PENDING Reason=Resources Restarts=0 ExitCode=0:0 StartTime=Unknown EndTime=Unknown
"""


def test_batch_script_passes_bash_syntax_check() -> None:
    text = batch_script(TASK, "/mnt/my jobs/jobs/train-1", SPEC)
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=True).returncode == 0
    printed = subprocess.run(
        ["bash"],
        input=text.partition("index=${")[0]
        + 'printf "%s|" "${argv[@]}" "$NAME" "$GLOO_SOCKET_IFNAME" "$limit"',
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert printed == "python|a b.py|it's|$HOME|a 'b' $c|eth1|5400|"


def test_process_sees_its_own_chips() -> None:
    place = {
        "SLURM_PROCID": "9",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "chips": "2",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "PATH": "/bin:/usr/bin",
    }
    said = subprocess.run(
        [
            "bash",
            "-c",
            PROCESS,
            "process",
            "sh",
            "-c",
            "echo $RANK $LOCAL_RANK $NODE_RANK $CUDA_VISIBLE_DEVICES",
        ],
        env=place,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "9 1 1 2,3\n"


def test_sbatch_options_follow_task() -> None:
    options = batch_options(TASK, "/j", SPEC)
    wanted = {
        "--job-name=train-1",
        "--nodes=2",
        "--ntasks-per-node=8",
        "--cpus-per-task=12",
        "--gres=gpu:8",
        "--mem=81920M",
        "--time=92",
        "--partition=a3",
        "--account=lab",
        "--qos=high",
        "--requeue",
        "--chdir=/mnt/my jobs",
        "--output=/j/log",
    }
    assert wanted <= set(options)
    many = batch_options(
        Task(id="t", argv=("x",), folder="/", copies=5), "/j", EngineSpec(name="slurm")
    )
    assert {"--array=0-4", "--output=/j/log-%a"} <= set(many)


def test_scontrol_states_map_to_task_states() -> None:
    found = {index: element.status for element in elements(SHOWN) for index in element.indices}
    assert sorted(found) == [0, 1, 2, 3, 4, 9]
    assert (found[0].state, found[0].exit_code) == ("done", 0)
    assert (found[1].state, found[1].attempts) == ("running", 2)
    assert (found[9].state, found[9].reason) == ("pending", "waiting for free nodes")


@pytest.mark.parametrize(
    ("word", "code", "state", "exit_code", "reason"),
    [
        ("FAILED", "3:0", "failed", 3, "exit code 3"),
        ("FAILED", "0:9", "failed", 137, "exit code 137"),
        ("OUT_OF_MEMORY", "0:125", "failed", 253, "out of memory"),
        ("TIMEOUT", "0:0", "failed", 0, "Slurm's time limit"),
        ("NODE_FAIL", "1:0", "lost", None, "a node failed"),
        ("PREEMPTED", "0:0", "lost", None, "preempted"),
        ("CANCELLED", "0:15", "cancelled", None, "cancelled"),
        ("NEWSTATE", "0:0", "lost", None, "unknown Slurm state NEWSTATE"),
    ],
)
def test_ends_in_words(
    word: str, code: str, state: str, exit_code: int | None, reason: str
) -> None:
    (element,) = elements(
        f"JobId=1 JobState={word} Reason=None ExitCode={code} StartTime=Unknown EndTime=Unknown"
    )
    status = element.status
    assert (status.state, status.exit_code, status.reason) == (state, exit_code, reason)


def test_missing_slurm_raises_error_with_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExternalError, match="Slurm's commands"):
        SlurmEngine(spec=EngineSpec(name="slurm")).submit(
            Task(id="t", argv=("x",), folder=str(tmp_path))
        )


def test_unreachable_controller_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that fail twice as Slurm's do, and one that was never meant to work."""
    for name in ("sbatch", "squeue"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/bash\necho x >>"{tmp_path}/{name}-calls"\n'
            f'[ "$(wc -l <"{tmp_path}/{name}-calls")" -gt 2 ] || {{ echo "Unable to contact slurm controller" >&2; exit 1; }}\n'
            + ("echo '12;cluster'\n" if name == "sbatch" else "")
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("gpuyard.retry.RetryPolicy.wait_s", lambda *_: 0.0)
    handle = SlurmEngine(spec=EngineSpec(name="slurm")).submit(
        Task(id="t", argv=("x",), folder=str(tmp_path))
    )
    assert (Path(handle.folder) / "number").read_text() == "12"
    (tmp_path / "sbatch").write_text(
        "#!/bin/bash\necho 'sbatch: error: invalid partition specified: x' >&2\nexit 1\n"
    )
    with pytest.raises(ExternalError, match="invalid partition"):
        SlurmEngine(spec=EngineSpec(name="slurm")).submit(
            Task(id="u", argv=("x",), folder=str(tmp_path))
        )
