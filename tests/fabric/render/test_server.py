"""The servers' files: netplan reads them, shells parse them, and NCCL's topology file pairs GPUs with their rails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.fabric.render.server.nic import nic_commands
from gpuyard.fabric.render.server.servers import servers


def files(fabric: Fabric) -> dict[str, str]:
    return {file.path: file.text for file in servers(fabric)}


def test_netplan_accepts_the_file(make: Callable[..., Fabric], tmp_path: Path) -> None:
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
        [netplan, "generate", "--root-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / "run/systemd/network/10-netplan-gpu1_eth.network").read_text(
        encoding="utf-8"
    )
    for line in ("Address=10.200.0.9/31", "Gateway=10.200.0.8", "Table=102", "From=10.200.0.9/32"):
        assert line in unit


def test_every_server_has_an_address_on_every_rail(make: Callable[..., Fabric]) -> None:
    fabric = make("sonic")
    written = files(fabric)
    for device in fabric.servers:
        nics = yaml.safe_load(written[f"servers/{device.name}/netplan.yaml"])["network"][
            "ethernets"
        ]
        assert {name: nic["addresses"] for name, nic in nics.items()} == {
            port.port: [port.address] for port in device.interfaces
        }
        assert {nic["mtu"] for nic in nics.values()} == {fabric.routing.host_mtu_bytes}
        tables = [nic["routing-policy"][0]["table"] for nic in nics.values()]
        assert len(set(tables)) == len(tables)


@pytest.mark.parametrize("system", ["junos", "sonic", "cumulus", "frr"])
def test_nic_script_matches_the_switches(system: str, make: Callable[..., Fabric]) -> None:
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
def test_shell_parses_the_scripts(name: str, make: Callable[..., Fabric]) -> None:
    done = subprocess.run(
        ["sh", "-n"], input=files(make("frr"))[name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("gpus", "rails", "planes"), [(2, 2, 1), (8, 8, 1), (8, 4, 1), (4, 4, 2)])
def test_nccl_topology_pairs_gpus_with_nics(
    gpus: int, rails: int, planes: int, make: Callable[..., Fabric], tmp_path: Path
) -> None:
    fabric = make("sonic", gpus_per_server=gpus, rails=rails, planes=planes)
    ports = fabric.servers[0].interfaces
    for index, port in enumerate(ports):
        device = tmp_path / "sys/devices" / f"0000:{0x80 + index:02x}:00.0"
        device.mkdir(parents=True)
        (device / "numa_node").write_text(
            f"{int((port.rail or 0) >= rails // 2)}\n", encoding="utf-8"
        )
        net = tmp_path / "sys/class/net" / port.port
        net.mkdir(parents=True)
        (net / "device").symlink_to(device)
    smi = tmp_path / "nvidia-smi"
    buses = "\n".join(f"00000000:{0x10 + gpu:02X}:00.0" for gpu in range(gpus))
    smi.write_text(f"#!/bin/sh\ncat <<END\n{buses}\nEND\n", encoding="utf-8")
    smi.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SYSFS": str(tmp_path / "sys"),
    }
    done = subprocess.run(
        ["sh"],
        input=files(fabric)["servers/nccl-topology.sh"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
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
    written = [pci.get("busid") for pci in system.iter("pci") if pci.find("gpu") is not None]
    assert written == [f"0000:{0x10 + gpu:02x}:00.0" for gpu in range(gpus)]


def test_nccl_adaptive_routing_is_set_for_out_of_order_modes(make: Callable[..., Fabric]) -> None:
    assert "NCCL_IB_ADAPTIVE_ROUTING=1" in files(make("cumulus"))["servers/nccl.env"]
    assert "ADAPTIVE" not in files(make("sonic"))["servers/nccl.env"]


def test_frontend_servers_have_only_netplan_files(
    variants: Callable[[str], dict[str, Fabric]],
) -> None:
    written = files(variants("frr")["frontend"])
    assert written
    assert all(path.endswith("netplan.yaml") for path in written)


@pytest.mark.parametrize(
    ("vendor", "tool", "called"),
    [
        ("thor2", "bnxt_setupcc.sh", ["-d bnxt0 -i gpu0_eth -m 3 -r 3 -s 26 -c 6 -p 48"]),
        (
            "pollara",
            "nicctl",
            [
                "update port -p uuid-1 --pause-type pfc --rx-pause enable --tx-pause enable",
                "update qos dscp-to-priority --dscp 26 --priority 3",
                "update qos dscp-to-priority --dscp 48 --priority 6",
                "update qos pfc --priority 3 --no-drop enable",
                "update dcqcn -r bnxt0 -i 1 --cnp-dscp 48",
            ],
        ),
    ],
)
def test_script_calls_the_tool_of_the_vendor(
    vendor: str, tool: str, called: list[str], make: Callable[..., Fabric], tmp_path: Path
) -> None:
    text = nic_commands(make("cumulus", nic_vendor=vendor))
    log, bin_folder = tmp_path / "log", tmp_path / "bin"
    bin_folder.mkdir()
    for name, body in (
        (tool, f'echo "$@" >> {log}\n[ "$1 $2" = "show port" ] && echo "Port : uuid-1"\nexit 0'),
        ("rdma", "exit 0"),
        ("ls", "echo bnxt0"),
    ):
        script = bin_folder / name
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
    path = f"{bin_folder}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", text], env={"PATH": path}, check=True)
    lines = log.read_text().splitlines()
    assert all(line in lines for line in called), lines
    missing = subprocess.run(
        ["sh", "-c", text],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 1
    assert f"{tool} is missing" in missing.stderr


def test_unknown_nics_get_settings_and_no_commands(make: Callable[..., Fabric]) -> None:
    text = nic_commands(make("junos", nic_vendor="unknown"))
    assert not re.search(r"mlnx_qos|mlxconfig|cma_roce", text)
    assert "DSCP 26, priority 3" in text
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing was changed" in done.stderr


def test_servers_with_amd_gpus_do_not_get_connectx_commands() -> None:
    machines = [
        machine
        for machine in load_catalog().machines
        if machine.provider == "onprem" and (machine.chip or "").startswith("mi")
    ]
    assert machines
    assert {demand_for(machine, 4).nic_vendor for machine in machines} == {"unknown"}
