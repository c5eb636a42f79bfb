"""The recipe "Add a switch OS" of CONTRIBUTING.md, performed: one folder and one line of a list."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.cli.main import main
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render import switch_os_list
from gpuyard.fabric.render.fabric_files import render
from gpuyard.fabric.render.switch_os import SwitchOS
from gpuyard.fabric.verify.verify import verify

# What a contributor writes in src/gpuyard/fabric/render/toy/toy.py.
TOY = """
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import EcnConfig, PfcConfig, QosProfile, TrafficClass
from gpuyard.fabric.lossless.watchdog import WatchdogConfig
from gpuyard.fabric.render.switch_os import File, SwitchOS

QOS = QosProfile(
    name="toy-roce",
    classes=(
        TrafficClass(
            kind="roce", label="rdma", dscp=(26,), traffic_class=3, priority=3, queue=3, lossless=True
        ),
        TrafficClass(
            kind="cnp", label="cnp", dscp=(48,), traffic_class=6, priority=6, queue=6,
            schedule="strict",
        ),
        TrafficClass(kind="default", label="rest", dscp=(), traffic_class=0, priority=0, queue=0),
    ),
    pfc=PfcConfig(priorities=(3,)),
    ecn=EcnConfig(mark_ratio=1.0, low_bytes=150_000, high_bytes=1_500_000),
    source="an example",
)


def _render(fabric):
    for switch in fabric.switches:
        lines = [f"hostname {switch.name}", f"asn {switch.asn}"]
        lines += [f"port {port.port} address {port.address}" for port in switch.interfaces]
        yield File(path=f"switches/{switch.name}/toy.conf", text="\\n".join(lines) + "\\n")


TOY = SwitchOS(
    name="toy",
    port_name=lambda switch, port, part, parts: f"toy{port}.{part}",
    qos=lambda model: QOS,
    watchdog=WatchdogConfig(poll_s=0.1, detect_s=0.2, action="drop", source="an example"),
    balancing=(LoadBalancing(mode="ecmp"),),
    render=_render,
)
"""
DEMAND = Demand(server_count=16, nic_bits_per_s=400e9, leaf="sn5600", os="toy", balancing="ecmp")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SwitchOS:
    """The toy OS, loaded from its file and added to the list."""
    path = tmp_path / "toy.py"
    path.write_text(TOY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    oses = (*switch_os_list.SWITCH_OSES, module.TOY)
    monkeypatch.setattr(switch_os_list, "SWITCH_OSES", oses)
    system: SwitchOS = module.TOY
    return system


@pytest.fixture
def catalog() -> Catalog:
    """The catalog with a switch that runs the toy OS, as a line in switches.toml says it."""
    known = load_catalog()
    switch = replace(known.switch("sn5600"), os=("toy",))
    others = tuple(other for other in known.switches if other.name != switch.name)
    return replace(known, switches=(*others, switch))


def test_new_os_designs_verifies_and_renders_a_fabric(toy: SwitchOS, catalog: Catalog) -> None:
    fabric = design(DEMAND, catalog)
    assert isinstance(fabric, Fabric), fabric
    leaf = fabric.of_role("leaf")[0]
    assert (leaf.os, leaf.interfaces[0].port) == ("toy", "toy0.0")
    assert (fabric.lossless.qos.name, fabric.lossless.balancing.mode) == ("toy-roce", "ecmp")
    assert verify(fabric, catalog).errors == ()
    files = {file.path: file.text for file in render(fabric, catalog)}
    assert files[f"switches/{leaf.name}/toy.conf"].startswith(f"hostname {leaf.name}\n")
    assert "toy0.0" in files["cabling.csv"]


def test_os_of_the_switches_is_chosen_when_none_is_requested(
    toy: SwitchOS, catalog: Catalog
) -> None:
    fabric = design(replace(DEMAND, os=None), catalog)
    assert isinstance(fabric, Fabric)
    assert fabric.demand.os == toy.name


def test_unsupported_balancing_mode_is_infeasible(toy: SwitchOS, catalog: Catalog) -> None:
    refused = design(replace(DEMAND, balancing="adaptive"), catalog)
    assert isinstance(refused, Infeasible)
    assert refused.binding == "balancing"
    assert "toy does not support" in refused.what


def test_command_line_offers_the_new_os(toy: SwitchOS, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fabric", "design", "--help"])
    assert toy.name in capsys.readouterr().out


def test_unknown_os_raises_input_error(catalog: Catalog) -> None:
    with pytest.raises(InputError) as caught:
        design(replace(DEMAND, os="sonik"), load_catalog())
    assert [problem.where for problem in caught.value.problems] == ["os"]
    assert '"sonic"' in caught.value.problems[0].fix
    with pytest.raises(InputError) as caught:  # a catalog entry with an OS that is not in the list
        design(replace(DEMAND, os=None), catalog)
    assert caught.value.problems[0].where == "leaf"
