"""Supervision of a Compute Engine job, run as processes with stand-ins for docker and gcloud."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.platforms import platform_named
from gpuyard.provision.platforms.compute_engine.compute_engine_platform import COMPUTE_ENGINE
from gpuyard.provision.restarts import restart_limit
from gpuyard.units import DAY_S

from .rendering import SETTINGS, at, blueprint_of, body_of, file_of, of_machines, render_artefacts

# Ranks other than 0 wait for rank 0, which counts to 12 and resumes from the file "step".
PROGRAM = """
echo "$NODE_RANK $(hostname -s) $(cat "$ROOT/step" 2>/dev/null || echo 0)" >>"$ROOT/log"
if [ -e "$ROOT/broken" ]; then exit 7; fi
while :; do
  step=$(cat "$ROOT/step" 2>/dev/null || echo 0)
  if [ "$step" -ge 12 ]; then exit 0; fi
  if [ "$NODE_RANK" = 0 ]; then echo $((step + 1)) >"$ROOT/step.new"; mv "$ROOT/step.new" "$ROOT/step"; fi
  sleep 0.5
done
"""
DOCKER = """
case $1 in
  run) bash "${@: -1}" & echo $! >"$NODE/pid"; wait $!; exit $? ;;
  kill) kill -9 "$(cat "$NODE/pid")" ;;
esac
"""
GCLOUD = """
case "$*" in
  *"managed describe"*) echo 42 ;;
  *"instances describe"*) echo "c,b,s,$(basename "$NODE")" ;;
  *--size=0*) echo released >>"$ROOT/released" ;;
esac
"""
FAST = {"POLL_S": 1, "SILENT_S": 4, "PEER_WAIT_S": 5, "DONE_WAIT_S": 5, "BACKOFF_S": 0}


@dataclass(slots=True, kw_only=True)
class Group:
    """Machines of a group as processes."""

    root: Path
    script: str
    machines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        node = self.root / name
        binaries = node / "bin"
        binaries.mkdir(parents=True, exist_ok=True)
        fakes = {
            "docker": DOCKER,
            "gcloud": GCLOUD,
            "hostname": f"echo {name}",
            "poweroff": f"touch {node}/off",
        }
        for command, body in fakes.items():
            (binaries / command).write_text(f"#!/bin/bash\n{body}\n")
            (binaries / command).chmod(0o755)
        script = self.script.replace("/opt/gpuyard", str(node))
        environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
        environment |= {"ROOT": str(self.root), "NODE": str(node)}
        with (node / "out").open("ab") as out:
            self.machines[name] = subprocess.Popen(
                ["bash", "-c", script],
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def lose(self, name: str) -> None:
        os.killpg(self.machines[name].pid, signal.SIGKILL)
        self.machines.pop(name).wait()

    def stop(self) -> None:
        for name in list(self.machines):
            if self.machines[name].poll() is None:
                self.lose(name)
        # The stand-in for docker kills one process; a container takes its children with it.
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.root).encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)

    @property
    def log(self) -> list[list[str]]:
        file = self.root / "log"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def ended(self) -> bool:
        return all(machine.poll() is not None for machine in self.machines.values())

    @property
    def reason(self) -> str:
        (file,) = (self.root / "checkpoints" / ".gpuyard").glob("*/ended")
        return file.read_text()


def wait_until(condition: Callable[[], bool], timeout_s: float = 300.0) -> None:
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "timeout"
        time.sleep(0.2)


def job_script(**fast: int) -> str:
    """The part of the rendered start-up script after the set-up of the host."""
    settings = replace(SETTINGS, framework="command", program="bash $ROOT/program.sh")
    settings = replace(settings, rendered_s=float(int(time.time())))
    blueprint = of_machines(blueprint_of("a3-megagpu-8g", "multi-node", "spot"), 3)
    body = body_of(render_artefacts(COMPUTE_ENGINE, blueprint, settings), "40-template.json")
    script = str(at(body, "properties", "metadata", "items", 0, "value"))
    head = script[: script.index("export HOME")]
    release = next(line for line in script.splitlines() if line.startswith("release_machines()"))
    job = script[script.index("cat >/opt/gpuyard/run.sh") :]
    # The plugin's script and the containers exist on real machines only.
    job = re.sub(r"^set \+u; source .*$", "", job, flags=re.M)
    for name, value in (FAST | fast).items():
        job, count = re.subn(rf"^{name}=\d+$", f"{name}={value}", job, flags=re.M)
        assert count == 1, name
    return f"{head}{release}\n{job}"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    (tmp_path / "program.sh").write_text(PROGRAM)
    script = job_script().replace("/mnt/checkpoints", str(tmp_path / "checkpoints"))
    group = Group(root=tmp_path, script=script)
    for name in ("m-a", "m-b", "m-c"):
        group.start(name)
    yield group
    group.stop()


@pytest.mark.slow
def test_job_resumes_when_a_lost_machine_is_recreated_and_ends_everywhere(group: Group) -> None:
    wait_until(lambda: len(group.log) == 3)
    assert sorted(row[:2] for row in group.log) == [["0", "m-a"], ["1", "m-b"], ["2", "m-c"]]
    wait_until(
        lambda: (group.root / "step").exists() and int((group.root / "step").read_text()) > 2
    )
    group.lose("m-b")
    group.start("m-b")  # as the group recreates it, under its name
    wait_until(lambda: len(group.log) == 6)
    assert all(int(row[2]) >= 2 for row in group.log[3:]), "it resumes from the checkpoint"
    wait_until(group.ended)
    assert (group.root / "step").read_text().strip() == "12"
    assert group.reason.strip() == "done"
    assert (group.root / "released").exists()
    assert all((group.root / name / "off").exists() for name in ("m-a", "m-b", "m-c"))


@pytest.mark.slow
def test_survivors_end_when_rank_0_is_lost_for_good(group: Group) -> None:
    wait_until(lambda: len(group.log) == 3)
    group.lose("m-a")
    wait_until(group.ended)
    assert group.reason.startswith("only 2 of 3 machines")
    assert (group.root / "released").exists()
    assert all((group.root / name / "off").exists() for name in ("m-b", "m-c"))


@pytest.mark.slow
def test_program_that_keeps_failing_ends_the_job(tmp_path: Path) -> None:
    (tmp_path / "program.sh").write_text(PROGRAM)
    (tmp_path / "broken").touch()
    script = job_script(QUICK_FAILURES=3).replace("/mnt/checkpoints", str(tmp_path / "checkpoints"))
    group = Group(root=tmp_path, script=script)
    for name in ("m-a", "m-b", "m-c"):
        group.start(name)
    try:
        wait_until(group.ended)
        assert group.reason.startswith("failed for good: 3 failures in a row")
    finally:
        group.stop()


def test_lost_machines_are_recreated_until_a_fixed_end() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node", "spot")
    artefacts = render_artefacts(COMPUTE_ENGINE, blueprint)
    policy = body_of(artefacts, "50-group.json")["instanceLifecyclePolicy"]
    assert policy == {"defaultActionOnFailure": "REPAIR"}
    scheduling = at(body_of(artefacts, "40-template.json"), "properties", "scheduling")
    assert isinstance(scheduling, dict)
    # A run duration would begin again for every recreated machine.
    assert "maxRunDuration" not in scheduling
    assert str(scheduling["terminationTime"]).startswith("2027-01-")


def test_restart_limit_covers_the_interruptions_of_the_plan() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node", "spot")
    # 12.8 interruptions per day, as 32 spot machines may have, over a TTL of 50 days
    often = replace(blueprint, mean_time_between_interruptions_s=DAY_S / 12.8)
    settings = replace(SETTINGS, ttl_s=50.0 * DAY_S)
    limit = restart_limit(often, resolve_settings(often, settings))
    assert 700 < limit < 760
    for name, file in (("kubernetes", "50-job.yaml"), ("slurm", "80-job.sbatch")):
        platform = platform_named(name)
        assert platform is not None
        text = file_of(render_artefacts(platform, often, settings), file).text
        assert re.search(rf"(maxRestarts: |-lt ){limit}\b", text), name
    body = body_of(render_artefacts(COMPUTE_ENGINE, often, settings), "40-template.json")
    assert f"RESTARTS={limit}\n" in json.dumps(body).replace("\\n", "\n")


def test_unknown_interruptions_leave_room_for_failures_of_the_program() -> None:
    blueprint = blueprint_of("a3-megagpu-8g", "multi-node", "spot")
    assert restart_limit(blueprint, resolve_settings(blueprint, DeploymentSettings())) == 10
