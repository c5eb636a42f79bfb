"""Reading configurations: formats, one model for all of them, and nothing dropped."""

from __future__ import annotations

import json

import pytest

from gpuyard.errors import InputError
from gpuyard.fabric.configs.device_config import DeviceConfig, QueueEcn
from gpuyard.fabric.configs.junos_text import junos_statements
from gpuyard.fabric.configs.read import ConfigText, format_of, read_configs
from gpuyard.fabric.routing import Bfd

from .samples import EOS, JUNOS_CURLY, NXOS, pair


def leaf(template: str) -> DeviceConfig:
    return read_configs(pair(template))[0]


@pytest.mark.parametrize("template", [JUNOS_CURLY, EOS, NXOS], ids=["junos", "eos", "nxos"])
def test_one_model_holds_every_vendor(template: str) -> None:
    device = leaf(template)
    port = device.ports[0]
    assert (device.hostname, device.bgp.asn, device.loopbacks) == (
        "leaf-1",
        65001,
        ("10.9.0.1/32",),
    )
    assert port.addresses == ("10.0.0.0/31",)
    assert port.qos.pfc_priorities == (3,)
    neighbour = device.bgp.neighbours[0]
    assert (neighbour.peer, neighbour.asns, neighbour.exports) == ("10.0.0.1", ("65002",), ("UP",))
    assert device.refuses(neighbour) == {"0:15"}
    assert not device.unread
    assert not device.undefined


def test_junos_qos_is_resolved_per_port() -> None:
    qos = leaf(JUNOS_CURLY).ports[0].qos
    assert qos.queues == ((26, 4),)  # af31
    assert qos.pfc_queues == ((3, 4),)
    assert qos.ecn == (QueueEcn(queue=4, unit="ratio", low=0.55, high=0.9, mark_ratio=1.0),)


def test_eos_qos_comes_from_its_profile() -> None:
    qos = leaf(EOS).ports[0].qos
    assert dict(qos.queues)[26] == 3
    assert qos.ecn == (QueueEcn(queue=3, unit="bytes", low=150e3, high=1500e3, mark_ratio=1.0),)
    assert [str(one) for one in qos.schedules] == ["queue 3: weighted 50%", "queue 6: strict"]


def test_nxos_qos_joins_the_policies_of_port_and_system() -> None:
    port = leaf(NXOS).ports[0]
    qos = port.qos
    assert port.speed_bits_per_s == 400e9  # of the breakout
    assert qos.queues == ((24, 3), (25, 3), (26, 3), (48, 7))
    assert qos.pfc_queues == ((3, 3),)
    assert qos.ecn == (QueueEcn(queue=3, unit="bytes", low=150e3, high=3e6, mark_ratio=0.07),)
    assert {str(one) for one in qos.schedules} == {"queue 3: weighted 50%", "queue 7: strict"}
    assert qos.watchdog


def test_nxos_neighbours_inherit_from_their_template() -> None:
    neighbour = leaf(NXOS).bgp.neighbours[0]
    assert neighbour.group == "SPINE"
    assert neighbour.bfd == Bfd(interval_s=0.5, multiplier=3)
    text = pair(NXOS)[0].text.replace("inherit peer SPINE", "inherit peer OTHER")
    (device,) = read_configs([ConfigText(file="a", text=text)])
    assert "template OTHER" in device.undefined


def test_release_is_read_where_the_file_states_it() -> None:
    assert leaf(EOS).release == "4.33.1F"
    assert leaf(NXOS).release == "10.5(1)"
    assert leaf(JUNOS_CURLY).release == "23.4X100-D20.7-EVO"


def test_junos_forms_give_the_same_statements() -> None:
    curly = pair(JUNOS_CURLY)[0].text
    words = [one.words for one in junos_statements(curly, "a")]
    lines = [
        "set " + " ".join(f'"{word}"' if " " in word else word for word in one) for one in words
    ]
    assert [one.words for one in junos_statements("\n".join(lines), "b")] == words


def test_junos_inactive_statements_have_no_effect() -> None:
    text = (
        "set system host-name a\nset interfaces et-0/0/0 mtu 9216\ndeactivate interfaces et-0/0/0"
    )
    device = read_configs([ConfigText(file="a", text=text)])[0]
    assert device.ports == ()
    assert [str(one) for one in device.other] == ["inactive: interfaces et-0/0/0 mtu 9216"]


@pytest.mark.parametrize(
    "text",
    [
        "set system host-name leaf-1\nset \ndeactivate \n",
        "system {\n    host-name leaf-1;\n}\n;\n{\n}\n",
    ],
)
def test_junos_commands_without_a_statement_change_nothing(text: str) -> None:
    (device,) = read_configs([ConfigText(file="leaf-1.conf", text=text)])
    assert device.hostname == "leaf-1"


def test_junos_groups_are_inherited_where_they_are_applied() -> None:
    text = """
set groups fast interfaces <et-*> mtu 9216
set groups base system host-name of-group
set groups base routing-options autonomous-system 65001
set apply-groups base
set interfaces apply-groups fast
set interfaces et-0/0/0 description a
set interfaces et-0/0/1 mtu 1500
set interfaces xe-0/0/2 description b
set system host-name own
"""
    (device,) = read_configs([ConfigText(file="a.conf", text=text)])
    assert (device.hostname, device.bgp.asn) == ("own", 65001)
    assert {port.name: port.mtu_bytes for port in device.ports} == {
        "et-0/0/0": 9216,
        "et-0/0/1": 1500,
        "xe-0/0/2": None,
    }
    assert not device.unread
    assert not device.undefined


def test_a_junos_group_that_is_not_defined_is_reported() -> None:
    text = "set system host-name a\nset apply-groups global\n"
    (device,) = read_configs([ConfigText(file="a.conf", text=text)])
    assert device.undefined == ("group global",)


def test_a_community_list_without_values_is_read() -> None:
    text = f"{EOS}\nip community-list empty permit \n"
    (device,) = read_configs([ConfigText(file="leaf-1.cfg", text=text)])
    assert device.hostname


def test_what_is_not_understood_is_listed_with_its_line() -> None:
    text = pair(EOS)[0].text.replace("ip routing", "warp-drive engage")
    device = read_configs([ConfigText(file="leaf.cfg", text=text)])[0]
    assert [str(one) for one in device.unread] == ["warp-drive engage"]
    line = text.splitlines().index("warp-drive engage") + 1
    assert device.unread[0].where == f"leaf.cfg:{line}"


def test_every_statement_is_in_one_of_three_classes() -> None:
    for template in (JUNOS_CURLY, EOS, NXOS):
        device = leaf(template)
        known = {id(one) for one in (*device.other, *device.unread)}
        assert len(known) == len(device.other) + len(device.unread) <= len(device.statements)


def test_sonic_rows_may_be_nested_or_flat() -> None:
    nested = {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf-1", "bgp_asn": "65001"}},
        "PORT": {"Ethernet0": {"mtu": "9216", "speed": "400000", "admin_status": "up"}},
        "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}},
        "PORT_QOS_MAP": {
            "Ethernet0": {"pfc_enable": "3,4", "dscp_to_tc_map": "[DSCP_TO_TC_MAP|M]"}
        },
        "DSCP_TO_TC_MAP": {"M": {"26": "3"}},
        "BGP_NEIGHBOR": {"10.0.0.1": {"asn": "65002", "local_addr": "10.0.0.0"}},
    }
    flat = {f"{table}|{key}": row for table, rows in nested.items() for key, row in rows.items()}
    devices = [
        read_configs([ConfigText(file="config_db.json", text=json.dumps(data))])[0]
        for data in (nested, flat)
    ]
    for device in devices:
        assert device.ports[0].qos.pfc_priorities == (3, 4)
        assert device.ports[0].qos.queues == ((26, 3),)
        assert device.bgp.neighbours[0].asns == ("65002",)
        assert not device.unread
    assert devices[0].ports == devices[1].ports


def test_frr_neighbours_inherit_from_their_group() -> None:
    text = (
        "frr version 10.2\nhostname leaf-1\nbfd\n profile fast\n  transmit-interval 1000\n"
        "  receive-interval 1000\nrouter bgp 65001\n neighbor UP peer-group\n"
        " neighbor UP remote-as external\n neighbor UP bfd profile fast\n"
        " neighbor eth1 interface peer-group UP\n address-family ipv4 unicast\n"
        "  neighbor UP activate\n  maximum-paths 64\n"
    )
    device = read_configs([ConfigText(file="frr.conf", text=text)])[0]
    neighbour = device.bgp.neighbours[0]
    assert (neighbour.peer, neighbour.asns) == ("eth1", ("external",))
    assert neighbour.bfd == Bfd(interval_s=1.0, multiplier=3)
    assert device.bgp.max_paths_count == 64
    assert device.release == "10.2"


def test_names_that_are_not_defined_are_reported() -> None:
    text = pair(JUNOS_CURLY)[0].text.replace("export [ UP ]", "export [ DOWN ]")
    assert read_configs([ConfigText(file="a", text=text)])[0].undefined == (
        "policy-statement DOWN",
    )


def test_two_files_of_one_device_are_wrong_input() -> None:
    one, _ = pair(EOS)
    with pytest.raises(InputError, match=r"is of leaf-1, as leaf-1\.conf is"):
        read_configs([one, ConfigText(file="copy.conf", text=one.text)])


def test_broken_text_names_its_line() -> None:
    with pytest.raises(InputError, match="a:3"):
        read_configs([ConfigText(file="a", text="system {\n  host-name x;\n}}\n")])


def test_formats_are_recognised_by_content() -> None:
    assert format_of(pair(EOS)[0].text) == "eos"
    assert format_of(pair(NXOS)[0].text) == "nxos"
    assert format_of(pair(JUNOS_CURLY)[0].text) == "junos"
    assert format_of("- set:\n    system:\n      hostname: a\n") == "nvue"
    assert format_of('{"PORT": {}}') == "sonic"
    assert format_of("a,b,c\n1,2,3\n") is None


def test_a_number_that_is_none_is_wrong_input() -> None:
    text = pair(EOS)[0].text.replace("mtu 9214", "mtu large")
    with pytest.raises(InputError, match=r"wrong form: .*large"):
        read_configs([ConfigText(file="a", text=text)])


@pytest.mark.parametrize(
    "text",
    [
        '{"PORT": {}, "QUEUE": {"Ethernet0|3-99999999999": {"scheduler": "s"}}}',
        (
            "- set:\n    interface: {swp1: {type: swp, ip: {address: {10.0.0.1/31: {}}}}}\n    qos:\n"
            "      egress-scheduler:\n"
            "        default-global: {traffic-class: {0-99999999999: {mode: dwrr}}}\n"
        ),
        pair(EOS)[0].text + "qos map dscp 0-99999999999 to traffic-class 3\n",
    ],
    ids=["sonic", "nvue", "eos"],
)
def test_a_range_of_too_many_queues_is_wrong_input(text: str) -> None:
    with pytest.raises(InputError, match="has more than 64 numbers"):
        read_configs([ConfigText(file="a", text=text)])
