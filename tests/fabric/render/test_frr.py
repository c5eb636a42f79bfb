"""FRR's own tools read what is written: vtysh checks the syntax, and the daemons take it and give it back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.containerlab.clab_topology import containerlab_files
from gpuyard.fabric.render.frr.frr_conf import MAX_PATHS
from gpuyard.fabric.render.switch_os_list import switch_os

CASES = ("ipv4", "unnumbered", "tenants", "tenants-unnumbered", "frontend")
BGPD = Path("/usr/lib/frr/bgpd")


def needed(tool: str) -> str:
    """The path of a tool; without it the test is skipped, unless nothing may be."""
    found = shutil.which(tool)
    if found is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
        pytest.skip(f"{tool} is not installed")
    assert found, f"{tool} is not installed"
    return found


def configurations(fabric: Fabric, system: str) -> dict[str, str]:
    """frr.conf of every switch."""
    files = switch_os(system).render(fabric)
    return {file.path.split("/")[1]: file.text for file in files if file.path.endswith("frr.conf")}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("system", ["frr", "sonic"])
def test_vtysh_accepts_the_configuration(
    system: str, case: str, variants: Callable[[str], dict[str, Fabric]], tmp_path: Path
) -> None:
    vtysh = needed("vtysh")
    for name, text in configurations(variants(system)[case], system).items():
        path = tmp_path / f"{name}.conf"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [vtysh, "-C", "-f", str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


def test_vtysh_rejects_invalid_configuration(tmp_path: Path) -> None:
    path = tmp_path / "frr.conf"
    path.write_text("router bgp 65000\n neighbour 10.0.0.1 remote-as 1\nexit\n", encoding="utf-8")
    assert (
        subprocess.run(
            [needed("vtysh"), "-C", "-f", str(path)], capture_output=True, check=False
        ).returncode
        != 0
    )


@pytest.fixture
def bgpd(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts a routing daemon on a file, and gives its running configuration."""
    needed("vtysh")
    started: list[subprocess.Popen[bytes]] = []

    def run(text: str) -> str:
        path = tmp_path / "bgpd.conf"
        path.write_text(text, encoding="utf-8")
        tmp_path.chmod(0o777)
        daemon = subprocess.Popen(
            [
                str(BGPD),
                "-f",
                str(path),
                "-n",
                "-p",
                "0",
                "-P",
                "0",
                "-z",
                str(tmp_path / "none"),
                "-S",
                "-i",
                str(tmp_path / "pid"),
                "--vty_socket",
                str(tmp_path),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(daemon)
        until_s = time.monotonic() + 120.0
        while time.monotonic() < until_s:
            asked = subprocess.run(
                [
                    "vtysh",
                    "--vty_socket",
                    str(tmp_path),
                    "-d",
                    "bgpd",
                    "-c",
                    "show running-config no-header",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if asked.returncode == 0 and "router bgp" in asked.stdout:
                return asked.stdout
            time.sleep(0.1)
        raise AssertionError(asked.stdout + asked.stderr)

    yield run
    for daemon in started:
        daemon.terminate()
        daemon.wait(timeout=60)


def of_bgpd(text: str) -> str:
    """The part of frr.conf that is for bgpd: interfaces, VRFs and BFD are other daemons'."""
    kept: list[str] = []
    inside = ""
    for line in text.splitlines():
        if not inside and line.split(" ")[0] in ("interface", "vrf", "bfd", "service"):
            inside = line.split(" ")[0]
        if not inside:
            kept.append(line)
        if inside and (line in ("exit", "exit-vrf") or inside == "service"):
            inside = ""
    return "\n".join(kept) + "\n"


@pytest.mark.parametrize("case", ["ipv4", "unnumbered", "tenants"])
def test_bgpd_runs_the_configuration(
    case: str, variants: Callable[[str], dict[str, Fabric]], bgpd: Callable[[str], str]
) -> None:
    fabric = variants("frr")[case]
    leaf = fabric.device("leaf-s1-r1")
    running = bgpd(of_bgpd(configurations(fabric, "frr")["leaf-s1-r1"]))
    assert f"router bgp {leaf.asn}" in running
    assert f"bgp router-id {leaf.loopback}" in running
    assert running.count("peer-group ABOVE") == len(leaf.uplinks)
    assert "neighbor ABOVE route-map TO-ABOVE out" in running
    assert "neighbor ABOVE bfd profile fabric" in running
    assert (
        f"route-map TO-BELOW permit 10\n set community {fabric.routing.from_above} additive"
        in running
    )
    for vrf in fabric.vrfs:
        assert f"router bgp {leaf.asn} vrf {vrf.name}" in running
        assert f"rd {vrf.route_distinguisher(leaf)}" in running


@pytest.mark.parametrize("case", CASES)
def test_every_link_has_a_session(case: str, variants: Callable[[str], dict[str, Fabric]]) -> None:
    fabric = variants("frr")[case]
    texts = configurations(fabric, "frr")
    for device in fabric.switches:
        lines = texts[device.name].splitlines()
        for port in device.interfaces:
            if port.peer_asn is None:
                continue
            side = "ABOVE" if port in device.uplinks else "BELOW"
            name = port.peer_address or port.port
            asked = (
                f" neighbor {name} remote-as {port.peer_asn}"
                if port.peer_address
                else f" neighbor {name} interface remote-as {port.peer_asn}"
            )
            assert asked in lines
            assert f" neighbor {name} peer-group {side}" in lines
        assert (len(device.uplinks) > 0) == (" neighbor ABOVE peer-group" in lines)


def test_maximum_paths_stay_within_the_frr_limit(make: Callable[..., Fabric]) -> None:
    fabric = make("frr", oversubscription_ratio=1.0)
    for text in configurations(fabric, "frr").values():
        asked = next(line for line in text.splitlines() if "maximum-paths" in line)
        assert 1 <= int(asked.split()[1]) <= MAX_PATHS


def test_vtysh_accepts_the_twin(make: Callable[..., Fabric], tmp_path: Path) -> None:
    vtysh = needed("vtysh")
    for file in containerlab_files(make("junos")):
        if file.path.endswith("frr.conf"):
            path = tmp_path / "frr.conf"
            path.write_text(file.text, encoding="utf-8")
            assert (
                subprocess.run(
                    [vtysh, "-C", "-f", str(path)], capture_output=True, check=False
                ).returncode
                == 0
            )
