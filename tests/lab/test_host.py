"""What a host must have for a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.app.lab import LabOptions, lab_up
from gpuyard.errors import ExternalError
from gpuyard.lab import host
from gpuyard.lab import saved as saved_labs


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host whose root has no tools; the folder that programs are looked for in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "SBIN", ())
    monkeypatch.setattr(host, "is_root", lambda: True)
    return tmp_path


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def test_every_missing_tool_is_named_with_its_package(bare: Path) -> None:
    install(bare, "hostname", "mount", "nsenter", "sysctl", "unshare")
    with pytest.raises(ExternalError) as caught:
        host.require()
    assert caught.value.problem.what == "not installed: ip, tc, vtysh"
    assert caught.value.problem.fix == "apt-get install frr iproute2"


@pytest.mark.usefixtures("bare")
def test_ping_is_named_by_its_package_and_needed_by_no_lab() -> None:
    with pytest.raises(ExternalError) as caught:
        host.tool("ping")
    assert caught.value.problem.fix == "apt-get install iputils-ping"
    with pytest.raises(ExternalError) as caught:
        host.require()
    assert "ping" not in caught.value.problem.what


def test_missing_tools_are_reported_before_anything_is_saved(
    bare: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = bare / "labs"
    monkeypatch.setattr(saved_labs, "FOLDER", records)
    with pytest.raises(ExternalError, match="not installed"):
        lab_up(saved, LabOptions(name="bare"))
    assert not records.exists()


def test_vtysh_gets_the_namespace_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "tool", lambda name: name)
    command = host.on_device("lab_leaf-1", ["vtysh", "-c", "show bgp summary"])
    assert command[-5:] == ["vtysh", "-N", "lab_leaf-1", "-c", "show bgp summary"]
    assert host.on_device("lab_leaf-1", ["ip", "route"])[-2:] == ["ip", "route"]
