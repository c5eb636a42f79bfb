"""Audits: drift from the design, mistakes between devices, and running state."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Finding, InputError
from gpuyard.fabric.configs.audit import audit
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.drift import drift
from gpuyard.fabric.configs.intent import designed_configs
from gpuyard.fabric.configs.read import ConfigText, read_configs
from gpuyard.fabric.configs.state import StateText, read_states
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.fabric_files import render_switches

from .mutations import mutate, rewritten, with_text
from .samples import EOS, JUNOS_CURLY, NXOS, pair

LEAVES = {"junos": "qfx5240-64od", "sonic": "sn5600", "cumulus": "sn5600", "eos": "7060x6-64pe",
          "nxos": "n9364e-sg2", "frr": "sn5600"}  # fmt: skip
FAULTS_PER_OS = 40  # 200 in all


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A small fabric, its rendered files per switch, and their model."""

    fabric: Fabric
    files: dict[str, list[ConfigText]]
    designed: dict[str, DeviceConfig]

    @property
    def texts(self) -> list[ConfigText]:
        return [text for some in self.files.values() for text in some]


@cache
def rendered(os: str) -> Rendered:
    fabric = design(
        Demand(
            server_count=4, rails=4, nic_bits_per_s=400e9, leaf=LEAVES[os], os=os, shape="two-tier"
        ),
        load_catalog(),
    )
    assert isinstance(fabric, Fabric), fabric
    files: dict[str, list[ConfigText]] = {}
    for file in render_switches(fabric):
        name = file.path.split("/")[1]
        files.setdefault(name, []).append(ConfigText(file=file.path, text=file.text))
    designed = {device.hostname: device for device in designed_configs(fabric)}
    return Rendered(fabric=fabric, files=files, designed=designed)


def changed(os: str, device: str, old: str, new: str) -> tuple[Finding, ...]:
    """Audit against the design with one text replaced, once, on one switch."""
    subject = rendered(os)
    count = 0
    texts = []
    for text in subject.texts:
        here = f"/{device}/" in text.file and old in text.text and not count
        count += here
        after = text.text.replace(old, new, 1) if here else text.text
        texts.append(ConfigText(file=text.file, text=after))
    assert count == 1, old
    return audit(read_configs(texts), subject.fabric).findings


@pytest.mark.parametrize("os", LEAVES)
def test_what_is_rendered_is_read_whole_and_is_as_designed(os: str) -> None:
    subject = rendered(os)
    result = audit(read_configs(subject.texts), subject.fabric)
    assert result.findings == ()
    assert all(not device.unread for device in result.devices)


@pytest.mark.parametrize("os", LEAVES)
def test_rendered_configurations_agree_with_each_other(os: str) -> None:
    assert audit(read_configs(rendered(os).texts)).findings == ()


@pytest.mark.parametrize("os", LEAVES)
def test_seeded_faults_are_found_and_rewrites_are_not_reported(os: str) -> None:
    subject, random_ = rendered(os), random.Random(7)
    missed = []
    for _ in range(FAULTS_PER_OS):
        mutation = mutate(subject.texts, random_)
        name = mutation.file.split("/")[1]
        try:
            device = read_configs(with_text(subject.files[name], mutation))[0]
        except InputError:
            continue  # reported as unreadable
        if not (list(drift(subject.designed[name], device)) or device.undefined or device.unread):
            missed.append(f"{mutation.file}:{mutation.what}")
    assert len(missed) <= FAULTS_PER_OS * 0.05, missed
    for name, texts in subject.files.items():
        again = read_configs([rewritten(text, random_) for text in texts])[0]
        assert not list(drift(subject.designed[name], again))


@pytest.mark.parametrize(
    ("os", "old", "new", "rule"),
    [
        ("junos", "mtu 9216", "mtu 1500", "config-mtu"),
        ("junos", "pfc-priority 3", "pfc-priority 5", "config-pfc"),
        ("junos", "fill-level [ 55 90 ]", "fill-level [ 5 10 ]", "config-ecn"),
        ("junos", "then reject", "then accept", "config-policy"),
        ("sonic", '"pfc_enable": "3"', '"pfc_enable": ""', "config-pfc"),
        ("sonic", 'green_max_threshold": "2097152"', 'green_max_threshold": "20"', "config-ecn"),
        ("sonic", '"mtu": "9216"', '"mtu": "9100"', "config-mtu"),
        ("cumulus", "cable-length: 5", "cable-length: 50", "config-buffer"),
        ("cumulus", "ebgp: ", "ebgp: 1", "config-bgp"),
        ("nxos", "pause pfc-cos 3", "pause pfc-cos 4", "config-pfc"),
        ("nxos", "watch-dog interval 100", "watch-dog interval 900", "config-watchdog"),
        ("frr", "3:on", "4:on", "config-pfc"),
        ("frr", "detect-multiplier 3", "detect-multiplier 30", "config-neighbour"),
    ],
)
def test_drift_names_the_property(os: str, old: str, new: str, rule: str) -> None:
    findings = changed(os, "leaf-s1-r2", old, new)
    assert {finding.rule for finding in findings} == {rule}
    assert all("leaf-s1-r2" in finding.where for finding in findings)


@pytest.mark.parametrize(
    ("os", "text"), [("junos", "autonomous-system {}"), ("sonic", "router bgp {}"),
                     ("frr", "router bgp {}")]
)  # fmt: skip
def test_one_wrong_as_number_is_one_finding_with_its_consequences(os: str, text: str) -> None:
    subject = rendered(os)
    asn = subject.designed["leaf-s1-r2"].bgp.asn
    (finding,) = changed(os, "leaf-s1-r2", text.format(asn), text.format(64999))
    sessions = len(subject.designed["leaf-s1-r2"].bgp.neighbours)
    assert finding.rule == "config-asn"
    assert (
        f"{sessions} BGP sessions stay down and 6 pairs of leaves lose their route" in finding.what
    )


def test_pfc_on_one_port_is_asymmetric() -> None:
    old = '"pfc_enable": "3"'
    subject = rendered("sonic")
    texts = [
        ConfigText(file=text.file, text=text.text.replace(old, '"pfc_enable": ""', 1))
        if "/leaf-s1-r2/config_db" in text.file
        else text
        for text in subject.texts
    ]
    findings = audit(read_configs(texts)).findings
    assert {finding.rule for finding in findings} >= {"config-pfc"}
    assert all("leaf-s1-r2:Ethernet0" in finding.where for finding in findings)


def test_missing_and_unknown_devices_are_named() -> None:
    subject = rendered("frr")
    some = [text for text in subject.texts if "/spine-1/" not in text.file]
    stray = ConfigText(file="x/frr.conf", text="frr defaults datacenter\nhostname stray\n")
    findings = audit(read_configs([*some, stray]), subject.fabric).findings
    assert {(one.rule, one.where) for one in findings} >= {
        ("config-missing", "spine-1"),
        ("config-device", "stray"),
    }


def test_another_os_than_designed_is_one_finding() -> None:
    findings = audit(read_configs([
        ConfigText(file="a", text=pair(EOS)[0].text.replace("leaf-1", "leaf-s1-r1"))
    ]), rendered("frr").fabric).findings  # fmt: skip
    assert [one.rule for one in findings if one.severity == "error"] == ["config-os"]


def faults() -> Iterator[tuple[str, str, str, str]]:
    for template in (JUNOS_CURLY, EOS, NXOS):
        yield template, "10.0.0.0/31", "10.0.0.2/31", "config-neighbour"
    yield JUNOS_CURLY, "autonomous-system 65001", "autonomous-system 65009", "config-neighbour"
    yield JUNOS_CURLY, "mtu 9216", "mtu 1500", "config-mtu"
    yield EOS, "mtu 9214", "mtu 1500", "config-mtu"
    yield EOS, "remote-as 65002", "remote-as 65003", "config-neighbour"
    yield EOS, "priority 3 no-drop", "priority 4 no-drop", "config-pfc"
    yield EOS, "minimum-threshold 150 kbytes", "minimum-threshold 1 kbytes", "config-ecn"
    yield EOS, "max-mark-probability 100", "max-mark-probability 0", "config-ecn"
    yield NXOS, "remote-as 65002", "remote-as 65003", "config-neighbour"
    yield NXOS, "mtu 9216\n  priority", "mtu 1500\n  priority", "config-mtu"
    yield NXOS, "pfc-cos 3", "pfc-cos 4", "config-pfc"
    yield NXOS, "flow-control mode on", "flow-control mode off", "config-pfc"
    yield NXOS, "minimum-threshold 150 kbytes", "minimum-threshold 1 kbytes", "config-ecn"
    yield NXOS, "class CNP\n", "class NONE\n", "config-reference"
    yield JUNOS_CURLY, "drop-profile ecn", "drop-profile ec", "config-reference"


@pytest.mark.parametrize(("template", "old", "new", "rule"), list(faults()))
def test_mistakes_between_two_devices_are_found(
    template: str, old: str, new: str, rule: str
) -> None:
    first, second = pair(template)
    assert audit(read_configs([first, second])).findings == ()
    assert old in first.text
    wrong = ConfigText(file=first.file, text=first.text.replace(old, new, 1))
    assert rule in {one.rule for one in audit(read_configs([wrong, second])).errors}


@pytest.mark.parametrize(
    "data",
    [
        {"ipv4Unicast": {"as": 65001, "peers": {"10.0.0.1": {"remoteAs": 65002, "state": "Idle"}}}},
        {"vrfs": {"default": {"asn": "65001", "peers": {"10.0.0.1": {"peerState": "Idle"}}}}},
        {"TABLE_vrf": {"ROW_vrf": {"vrf-name-out": "default", "vrf-local-as": "65001", "TABLE_af": {
            "ROW_af": {"TABLE_saf": {"ROW_saf": {"TABLE_neighbor": {"ROW_neighbor": {
                "neighborid": "10.0.0.1", "neighboras": "65002", "state": "Idle"}}}}}}}}},
        {"bgp-information": [{"bgp-peer": [{
            "peer-address": [{"data": "10.0.0.1+179"}], "peer-as": [{"data": "65002"}],
            "peer-state": [{"data": "Idle"}]}]}]},
        {"openconfig-network-instance:bgp": {"neighbors": {"neighbor": [{
            "neighbor-address": "10.0.0.1", "state": {"session-state": "IDLE", "peer-as": 65002}}]}}},
    ],
    ids=["frr", "eos", "nxos", "junos", "openconfig"],
)  # fmt: skip
def test_a_session_that_is_down_is_found_in_running_state(data: object) -> None:
    devices = read_configs(pair(EOS))
    states = read_states([StateText(file="leaf-1.bgp.json", text=json.dumps(data))])
    (finding,) = audit(devices, states=states).findings
    assert finding.rule == "state-session"
    assert "idle, not established" in finding.what.lower()


def test_running_as_number_and_ports_are_compared_with_the_configuration() -> None:
    data = {
        "bgp": {"global": {"state": {"as": 65100}}},
        "openconfig-interfaces:interface": [
            {"name": "Ethernet1/1", "state": {"oper-status": "DOWN"}}
        ],
    }
    states = read_states([StateText(file="leaf-1.json", text=json.dumps(data))])
    findings = audit(read_configs(pair(EOS)), states=states).findings
    assert {one.rule for one in findings} == {"state-asn", "state-port"}


def test_a_long_list_that_differs_is_cut() -> None:
    designed = rendered("nxos").designed["leaf-s1-r1"]
    lost = replace(designed, balancing=())
    long = replace(designed, balancing=tuple(f"dlb-interface {number}" for number in range(30)))
    (finding,) = drift(long, lost)
    assert finding.rule == "config-balancing"
    assert "24 more" in finding.what


def test_ports_that_are_down_are_read_from_nxos() -> None:
    rows = [{"interface": "Ethernet1/1/1", "state": "down"}, {"interface": "mgmt0", "state": "up"}]
    text = json.dumps({"TABLE_interface": {"ROW_interface": rows}})
    states = read_states([StateText(file="leaf-1.json", text=text)])
    (finding,) = audit(read_configs(pair(NXOS)), states=states).findings
    assert (finding.rule, finding.where) == ("state-port", "leaf-1:Ethernet1/1/1")


def test_state_without_sessions_is_wrong_input() -> None:
    with pytest.raises(InputError, match="no BGP session"):
        read_states([StateText(file="leaf-1.json", text="{}")])
