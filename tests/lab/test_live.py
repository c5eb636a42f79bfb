"""A real lab: routing daemons in namespaces, verified, failed, restored and removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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


def received_ratio(ping: str, lab: Lab) -> float:
    """The share of 100 echoes from the first server to the last, rail 0, that comes back."""
    first, last = lab.fabric.servers[0].interfaces[0], lab.fabric.servers[-1].interfaces[0]
    command = [
        ping,
        "-q",
        "-i",
        "0.005",
        "-c",
        "100",
        "-I",
        (first.address or "").partition("/")[0],
        (last.address or "").partition("/")[0],
    ]
    space = lab.namespace(lab.fabric.servers[0].name)
    done = subprocess.run(inside(space, command), capture_output=True, text=True, check=False)
    return int(done.stdout.split(" received")[0].split()[-1]) / 100


def until(true: Callable[[], bool], within_s: float = 180.0) -> None:
    """Wait for a condition."""
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s, "it never came true"
        time.sleep(0.1)


def sessions_and_width(lab: Lab, name: str) -> tuple[int, int]:
    """Sessions of a switch that are up, and the width of its narrowest route."""
    (switch,) = (switch for switch in lab_status(lab.name).switches if switch.name == name)
    return switch.sessions_up_count, switch.least_width_count


def findings_about(name: str, switch: str) -> list[str]:
    """What the verification of a lab says about a switch."""
    findings = lab_verify(name).findings
    return [finding.what for finding in findings if switch in f"{finding.where} {finding.what}"]


def test_lab_matches_the_design_and_detects_failures(ping: str, lab: Lab) -> None:
    assert status(lab).is_converged
    assert as_built(lab) == lab.fabric.topology
    assert computed_routes(lab) == running_routes(lab) == running_routes(lab, kernel=True)
    verification = lab_verify(lab.name)
    assert not verification.has_errors
    assert {check.verdict for check in verification.checks} == {"passed"}

    fail_link(lab, link_between(lab, "leaf-s1-r1", "spine-1"))
    until(lambda: sessions_and_width(lab, "leaf-s1-r1") == (1, 1))
    broken = lab_verify(lab.name)
    assert any(
        finding.rule == "missing-link" and "leaf-s1-r1" in finding.where
        for finding in broken.errors
    )
    assert heal(lab) == 2
    wait(lab)
    assert not lab_verify(lab.name).has_errors

    fail_switch(lab, "spine-1", silent=True)  # traffic over it is lost until BFD detects it
    until(lambda: received_ratio(ping, lab) == 1.0)
    assert heal(lab) > 0
    wait(lab)

    with pytest.raises(InputError, match="did you mean"):
        fail_switch(lab, "spine-11")
    assert lab_down(lab.name) == (lab.name,)
    assert left(lab.name) == []


def test_crossed_cables_are_reported(saved: Path, name: str) -> None:
    raised = lab_up(saved, LabOptions(name=name, crossed=("leaf-s1-r1", "leaf-s2-r2")))
    assert not hasattr(raised, "binding")
    # Until the sessions that can come up have done so.
    until(lambda: any("instead of" in what for what in findings_about(name, "leaf-s1-r1")))
    assert lab_verify(name).has_errors
    with pytest.raises(InputError, match="already up"):
        lab_up(saved, LabOptions(name=name))
    assert load(name).name == name


def test_down_removes_what_a_killed_boot_left(saved: Path, name: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", "lab", "up", str(saved), "--name", name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: bool(namespaces(f"{PREFIX}{name}_")))
    time.sleep(0.3)  # somewhere in the middle
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert name in labs()
    assert lab_down(name) == (name,)
    until(lambda: left(name) == [])


def test_status_of_a_lab_that_is_not_up_raises_input_error(name: str) -> None:
    with pytest.raises(InputError, match="not up"):
        lab_status(name)
