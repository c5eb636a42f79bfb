"""The files of a subnet manager: OpenSM options, and GUIDs by the names of the design."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.fabric_files import render

CATALOG = load_catalog()


def _files(**demand: object) -> dict[str, str]:
    fabric = design(Demand(nic_bits_per_s=400e9, leaf="qm9700", **demand), CATALOG)
    assert isinstance(fabric, Fabric)
    return {file.path: file.text for file in render(fabric, CATALOG)}


def test_routing_engine_follows_the_tiers() -> None:
    tree = _files(server_count=40)["subnet-manager/opensm.conf"]
    assert "routing_engine ftree,updn\nroot_guid_file" in tree
    one = _files(server_count=4)["subnet-manager/opensm.conf"]
    assert "routing_engine minhop\n" in one
    assert "root_guid_file" not in one


def test_script_lists_guids_of_the_top_switches_by_name(tmp_path: Path) -> None:
    script = tmp_path / "guids.sh"
    script.write_text(_files(server_count=32)["subnet-manager/guids.sh"])
    outputs = {
        "ibswitches": 'Switch\t: 0xfc6a1c0300e1 ports 65 "MF0;spine-2:MQM9700/U1" enhanced port 0\n'
        'Switch\t: 0xfc6a1c0300e2 ports 65 "MF0;leaf-s1-r1:MQM9700/U1" enhanced port 0\n'
        'Switch\t: 0xfc6a1c0300e4 ports 65 "MF0;spine-4:MQM9700/U1" enhanced port 0\n'
        'Switch\t: 0xfc6a1c0300e5 ports 65 "MF0;spine-3:MQM9700/U1" enhanced port 0\n'
        'Switch\t: 0xfc6a1c0300e3 ports 65 "spine-1" base port 0 lid 4 lmc 0\n',
        "ibhosts": 'Ca\t: 0x9c63c003008a ports 1 "server-01 mlx5_0"\n',
    }
    for name, text in outputs.items():
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
        tool.chmod(0o755)
    search = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", str(script), str(tmp_path)], env={"PATH": search}, check=True)
    roots = (tmp_path / "root_guids.conf").read_text().split()
    assert [guid[-2:] for guid in roots] == ["e3", "e1", "e5", "e4"]
    assert (tmp_path / "cn_guids.conf").read_text() == "0x9c63c003008a\n"
    (tmp_path / "ibswitches").write_text("#!/bin/sh\n")
    done = subprocess.run(
        ["sh", str(script), str(tmp_path)], env={"PATH": search}, check=False, capture_output=True
    )
    assert b"no switch is named spine-1" in done.stderr
