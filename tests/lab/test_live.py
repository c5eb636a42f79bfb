"""A real lab: routing daemons in namespaces, verified, failed, restored and removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.app.lab import LabOptions, lab_down, lab_status, lab_up, lab_verify
from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.lab.boot import CONFIGURATIONS, RUNNING, boot, labs
from gpuyard.lab.faults import fail_link, fail_switch, heal, link_between
from gpuyard.lab.host import inside, namespaces
from gpuyard.lab.links import PREFIX, Lab, lab_of
from gpuyard.lab.lldp import as_built
from gpuyard.lab.saved import load, save
from gpuyard.lab.state import computed_routes, running_routes, status, wait


def left(name: str) -> list[str]:
    """Return the namespaces, files and processes that are left of a lab."""
    files = [
        str(path)
        for folder in (CONFIGURATIONS, RUNNING)
        for path in folder.glob(f"{PREFIX}{name}_*")
    ]
    spaces = namespaces(f"{PREFIX}{name}_")
    pids = subprocess.run(
        ["pgrep", "-f", f"{PREFIX}{name}_"], capture_output=True, text=True, check=False
    )
    return [*files, *spaces, *pids.stdout.split()]


@pytest.fixture
def lab(small: Fabric, name: str) -> Lab:
    booted = lab_of(small, name=name, bfd_interval_s=0.1)
    save(booted)
    boot(booted)
    wait(booted)
    return booted


def pings(ping: str, lab: Lab, seconds: int) -> subprocess.Popen[str]:
    """Echoes every 5 ms from the first server to the last, rail 0."""
    first, last = lab.fabric.servers[0].interfaces[0], lab.fabric.servers[-1].interfaces[0]
    command = [
        ping,
        "-q",
        "-i",
        "0.005",
        "-c",
        str(200 * seconds),
        "-I",
        (first.address or "").partition("/")[0],
        (last.address or "").partition("/")[0],
    ]
    space = lab.namespace(lab.fabric.servers[0].name)
    return subprocess.Popen(inside(space, command), stdout=subprocess.PIPE, text=True)


def test_lab_matches_the_design_and_detects_failures(ping: str, lab: Lab) -> None:
    assert status(lab).is_converged
    assert as_built(lab) == lab.fabric.topology
    assert computed_routes(lab) == running_routes(lab) == running_routes(lab, kernel=True)
    verification = lab_verify(lab.name)
    assert not verification.has_errors
    assert {check.verdict for check in verification.checks} == {"passed"}

    fail_link(lab, link_between(lab, "leaf-s1-r1", "spine-1"))
    time.sleep(1.0)
    state = {switch.name: switch for switch in lab_status(lab.name).switches}
    assert state["leaf-s1-r1"].sessions_up_count == 1
    assert state["leaf-s1-r1"].least_width_count == 1
    broken = lab_verify(lab.name)
    assert any(
        finding.rule == "missing-link" and "leaf-s1-r1" in finding.where
        for finding in broken.errors
    )
    assert heal(lab) == 2
    wait(lab)
    assert not lab_verify(lab.name).has_errors

    traffic = pings(ping, lab, 5)
    time.sleep(0.5)
    fail_switch(lab, "spine-1", silent=True)  # traffic over it is lost until BFD detects it
    output, _ = traffic.communicate()
    received = int(output.split(" received")[0].split()[-1])
    assert 1000 - 400 <= received <= 1000
    assert heal(lab) > 0
    wait(lab)

    with pytest.raises(InputError, match="did you mean"):
        fail_switch(lab, "spine-11")
    assert lab_down(lab.name) == (lab.name,)
    assert left(lab.name) == []


def test_crossed_cables_are_reported(saved: Path, name: str) -> None:
    raised = lab_up(saved, LabOptions(name=name, crossed=("leaf-s1-r1", "leaf-s2-r2")))
    assert not hasattr(raised, "binding")
    time.sleep(6.0)  # wait for the sessions that can come up
    verification = lab_verify(name)
    wrong = [
        finding
        for finding in verification.findings
        if "leaf-s1-r1" in f"{finding.where} {finding.what}"
    ]
    assert any("instead of" in finding.what for finding in wrong)
    assert verification.has_errors
    with pytest.raises(InputError, match="already up"):
        lab_up(saved, LabOptions(name=name))
    assert load(name).name == name


def test_down_removes_what_a_killed_boot_left(saved: Path, name: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", "lab", "up", str(saved), "--name", name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(3000):
        if namespaces(f"{PREFIX}{name}_"):
            break
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert name in labs()
    assert lab_down(name) == (name,)
    time.sleep(0.5)
    assert left(name) == []


def test_status_of_a_lab_that_is_not_up_raises_input_error(name: str) -> None:
    with pytest.raises(InputError, match="not up"):
        lab_status(name)
