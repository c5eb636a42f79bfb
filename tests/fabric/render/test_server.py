"""The servers' files: netplan reads them, shells parse them, and NCCL's topology file pairs GPUs with their rails."""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render import servers


def files(fabric: Fabric) -> dict[str, str]:
    return {file.path: file.text for file in servers(fabric)}


def test_netplan_reads_it(make: Callable[..., Fabric], tmp_path: Path) -> None:
    netplan = shutil.which("netplan")
    if netplan is None and os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
        pytest.skip("netplan is not installed")
    assert netplan, "netplan is not installed"
    folder = tmp_path / "etc" / "netplan"
    folder.mkdir(parents=True)
    path = folder / "60-fabric.yaml"
    path.write_text(files(make("junos"))["servers/server-1/netplan.yaml"], encoding="utf-8")
    path.chmod(0o600)
    done = subprocess.run(
        [netplan, "generate", "--root-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / "run/systemd/network/10-netplan-gpu1_eth.network").read_text(encoding="utf-8")
    for line in ("Address=10.200.0.3/31", "Gateway=10.200.0.2", "Table=102", "From=10.200.0.3/32"):
        assert line in unit


def test_every_server_has_an_address_on_every_rail(make: Callable[..., Fabric]) -> None:
    fabric = make("sonic")
    found = files(fabric)
    for device in fabric.servers:
        nics = yaml.safe_load(found[f"servers/{device.name}/netplan.yaml"])["network"]["ethernets"]
        assert {name: nic["addresses"] for name, nic in nics.items()} == {
            port.port: [port.address] for port in device.interfaces
        }
        assert {nic["mtu"] for nic in nics.values()} == {fabric.routing.host_mtu_bytes}
        tables = [nic["routing-policy"][0]["table"] for nic in nics.values()]
        assert len(set(tables)) == len(tables)


@pytest.mark.parametrize("system", ["junos", "sonic", "cumulus", "frr"])
def test_the_nic_agrees_with_the_switches(system: str, make: Callable[..., Fabric]) -> None:
    fabric = make(system)
    text = files(fabric)["servers/nic-qos.sh"]
    qos = fabric.lossless.qos
    assert "--trust dscp" in text
    assert "--pfc 0,0,0,1,0,0,0,0" in text
    assert f"--dscp2prio set,26,{qos.class_of(26).priority}" in text
    assert f"--dscp2prio set,48,{qos.class_of(48).priority}" in text
    assert "cma_roce_tos" in text
    assert "-t 106" in text
    assert "RPG_AI_RATE_P1=5 RPG_BYTE_RESET_P1=32767 RPG_GD_P1=11 RPG_HAI_RATE_P1=50" in text
    assert "NCCL_IB_TC=106" in files(fabric)["servers/nccl.env"]


@pytest.mark.parametrize("name", ["servers/nic-qos.sh", "servers/nccl-topology.sh"])
def test_a_shell_parses_it(name: str, make: Callable[..., Fabric]) -> None:
    done = subprocess.run(["sh", "-n"], input=files(make("frr"))[name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("gpus", "rails", "planes"), [(2, 2, 1), (8, 8, 1), (8, 4, 1), (4, 4, 2)])
def test_the_topology_file_of_nccl(
    gpus: int, rails: int, planes: int, make: Callable[..., Fabric], tmp_path: Path
) -> None:
    fabric = make("sonic", gpus_per_server=gpus, rails=rails, planes=planes)
    ports = fabric.servers[0].interfaces
    for index, port in enumerate(ports):
        device = tmp_path / "sys/devices" / f"0000:{0x80 + index:02x}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{int((port.rail or 0) >= rails // 2)}\n", encoding="utf-8")
        net = tmp_path / "sys/class/net" / port.port
        net.mkdir(parents=True)
        (net / "device").symlink_to(device)
    smi = tmp_path / "nvidia-smi"
    buses = "\n".join(f"00000000:{0x10 + gpu:02X}:00.0" for gpu in range(gpus))
    smi.write_text(f"#!/bin/sh\ncat <<END\n{buses}\nEND\n", encoding="utf-8")
    smi.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SYSFS": str(tmp_path / "sys")}
    done = subprocess.run(["sh"], input=files(fabric)["servers/nccl-topology.sh"], capture_output=True, text=True,
                          env=environment, check=True)  # fmt: skip
    system = ET.fromstring(done.stdout)
    assert [cpu.get("numaid") for cpu in system] == ["0", "1"]
    bridges = system.findall("cpu/pci")
    assert len(bridges) == rails
    for rail, bridge in enumerate(bridges):
        own = [int(gpu.get("dev", "-1")) for gpu in bridge.iter("gpu")]
        nets = [net.get("name") for net in bridge.iter("net")]
        assert own == [gpu for gpu in range(gpus) if gpu * rails // gpus == rail]
        assert len(nets) == planes
        assert all(str(net).startswith(f"gpu{rail}_rdma") for net in nets)
        assert {net.get("speed") for net in bridge.iter("net")} == {str(400_000 // planes)}
    found = [pci.get("busid") for pci in system.iter("pci") if pci.find("gpu") is not None]
    assert found == [f"0000:{0x10 + gpu:02x}:00.0" for gpu in range(gpus)]


def test_out_of_order_delivery_is_told_to_nccl(make: Callable[..., Fabric]) -> None:
    assert "NCCL_IB_ADAPTIVE_ROUTING=1" in files(make("cumulus"))["servers/nccl.env"]
    assert "ADAPTIVE" not in files(make("sonic"))["servers/nccl.env"]


def test_a_front_end_has_addresses_alone(variants: Callable[[str], dict[str, Fabric]]) -> None:
    found = files(variants("frr")["frontend"])
    assert found
    assert all(path.endswith("netplan.yaml") for path in found)
