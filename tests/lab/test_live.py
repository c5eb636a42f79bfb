"""A real lab: routing daemons in namespaces, looked at, broken, mended, and gone without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.app.lab import Wanted, lab_down, lab_status, lab_up, lab_verify
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric
from gpuyard.lab import boot, lab_of, labs
from gpuyard.lab.boot import CONFIGURATIONS, RUNNING
from gpuyard.lab.faults import fail_link, fail_switch, heal, wire_named
from gpuyard.lab.host import inside, namespaces
from gpuyard.lab.lldp import as_built
from gpuyard.lab.saved import keep, recall
from gpuyard.lab.state import computed_routes, running_routes, status, wait
from gpuyard.lab.wires import PREFIX, Lab


def left(name: str) -> list[str]:
    """What still stands of a lab: namespaces, files and processes."""
    files = [str(path) for folder in (CONFIGURATIONS, RUNNING) for path in folder.glob(f"{PREFIX}{name}_*")]
    spaces = namespaces(f"{PREFIX}{name}_")
    found = subprocess.run(["pgrep", "-f", f"{PREFIX}{name}_"], capture_output=True, text=True, check=False)
    return [*files, *spaces, *found.stdout.split()]


@pytest.fixture
def lab(small: Fabric, name: str) -> Lab:
    made = lab_of(small, name=name, bfd_interval_s=0.1)
    keep(made)
    boot(made)
    wait(made)
    return made


def pings(lab: Lab, seconds: int) -> subprocess.Popen[str]:
    """Echoes every 5 ms from the first server to the last, rail 0."""
    first, last = lab.fabric.servers[0].interfaces[0], lab.fabric.servers[-1].interfaces[0]
    words = ["ping", "-q", "-i", "0.005", "-c", str(200 * seconds), "-I", (first.address or "").partition("/")[0],
             (last.address or "").partition("/")[0]]  # fmt: skip
    space = lab.namespace(lab.fabric.servers[0].name)
    return subprocess.Popen(inside(space, words), stdout=subprocess.PIPE, text=True)


def test_daemons_kernel_and_cables_agree_with_the_design_and_failures_are_seen(lab: Lab) -> None:
    assert status(lab).is_converged
    assert as_built(lab) == lab.fabric.topology
    assert computed_routes(lab) == running_routes(lab) == running_routes(lab, kernel=True)
    found = lab_verify(lab.name)
    assert found.is_sound
    assert {check.verdict for check in found.checks} == {"passed"}

    fail_link(lab, wire_named(lab, "leaf-s1-r1", "spine-1"))
    time.sleep(1.0)
    state = {switch.name: switch for switch in lab_status(lab.name).switches}
    assert state["leaf-s1-r1"].sessions_up_count == 1
    assert state["leaf-s1-r1"].least_width_count == 1
    broken = lab_verify(lab.name)
    assert any(finding.check == "missing-link" and "leaf-s1-r1" in finding.where for finding in broken.errors)
    assert heal(lab) == 2
    wait(lab)
    assert lab_verify(lab.name).is_sound

    traffic = pings(lab, 5)
    time.sleep(0.5)
    fail_switch(lab, "spine-1", silent=True)  # traffic that hashed there comes back once BFD gives it up
    told, _ = traffic.communicate()
    received = int(told.split(" received")[0].split()[-1])
    assert 1000 - 400 <= received <= 1000
    assert heal(lab) > 0
    wait(lab)

    with pytest.raises(InputError, match="did you mean"):
        fail_switch(lab, "spine-11")
    assert lab_down(lab.name) == (lab.name,)
    assert left(lab.name) == []


def test_crossed_cables_are_found(saved: Path, name: str) -> None:
    raised = lab_up(saved, Wanted(name=name, crossed=("leaf-s1-r1", "leaf-s2-r2")))
    assert not hasattr(raised, "binding")
    time.sleep(6.0)  # sessions that can come up do
    found = lab_verify(name)
    wrong = [finding for finding in found.findings if "leaf-s1-r1" in f"{finding.where} {finding.what}"]
    assert any("instead of" in finding.what for finding in wrong)
    assert not found.is_sound
    with pytest.raises(InputError, match="up already"):
        lab_up(saved, Wanted(name=name))
    assert recall(name).name == name


def test_a_killed_boot_leaves_what_down_finds(saved: Path, name: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "gpuyard", "lab", "up", str(saved), "--name", name],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(400):
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


def test_a_lab_that_is_not_up_is_told(name: str) -> None:
    with pytest.raises(InputError, match="not up"):
        lab_status(name)
