"""Cabling read from tables and from LLDP, in each supported form, and compared with the design."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from gpuyard.errors import InputError
from gpuyard.fabric.imports.built import AsBuilt, as_built
from gpuyard.fabric.imports.compare import compare
from gpuyard.fabric.imports.read import CablingReport, read_reports
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology

NICS = (Port(name="gpu0_eth", rail=0), Port(name="gpu1_eth", rail=1))
DESIGN = Topology(
    nodes=(
        Node(name="leaf-s1-r1", role="leaf", stripe=0, rail=0),
        Node(name="leaf-s1-r2", role="leaf", stripe=0, rail=1),
        Node(name="spine-1", role="spine"),
        Node(name="server-1", role="server", stripe=0, ports=NICS),
        Node(name="server-2", role="server", stripe=0, ports=NICS),
    ),
    links=tuple(
        Link(
            a=End(node=a, port=a_port),
            b=End(node=b, port=b_port),
            speed_bits_per_s=400e9,
            cable_m=length_m,
        )
        for a, a_port, b, b_port, length_m in (
            ("server-1", "gpu0_eth", "leaf-s1-r1", "et-0/0/0", 5.0),
            ("server-1", "gpu1_eth", "leaf-s1-r2", "et-0/0/0", 5.0),
            ("server-2", "gpu0_eth", "leaf-s1-r1", "et-0/0/1", 5.0),
            ("server-2", "gpu1_eth", "leaf-s1-r2", "et-0/0/1", 5.0),
            ("leaf-s1-r1", "et-0/0/32", "spine-1", "et-0/0/0", 40.0),
            ("leaf-s1-r2", "et-0/0/32", "spine-1", "et-0/0/1", 40.0),
        )
    ),
)


def built(*texts: tuple[str, str], design: Topology | None = DESIGN) -> AsBuilt:
    """What reports say was built."""
    return as_built(
        read_reports(CablingReport(file=file, text=text) for file, text in texts), design
    )


def table(links: Iterable[Link] = DESIGN.links) -> str:
    """Links as a table of cables."""
    rows = [
        f"{link.a.node},{link.a.port},{link.b.node},{link.b.port},400,{link.cable_m:g}"
        for link in links
    ]
    return "\n".join(["a_node,a_port,b_node,b_port,speed_gbps,cable_m", *rows])


def differences(*texts: tuple[str, str]) -> list[tuple[str, str, str]]:
    """Return rule, place and message of every difference from the design."""
    return [
        (finding.rule, finding.where, finding.what) for finding in compare(DESIGN, built(*texts))
    ]


def test_csv_of_the_design_reads_as_the_design() -> None:
    assert built(("cables.csv", table())).topology == DESIGN
    assert differences(("cables.csv", table())) == []


@pytest.mark.parametrize(
    "heading",
    [
        "Source Device;Source Port;Destination Device;Destination Port;Speed;Length (m)",
        "from node;from port;to node;to port;link speed;cable length",
        "Device A;Port A;Device B;Port B;Gbps;metres",
        "local host;local interface;neighbour;neighbour port;speed;length",
    ],
)
def test_common_csv_headings_are_recognised(heading: str) -> None:
    rows = "\n".join(
        f"{link.a.node};{link.a.port};{link.b.node};{link.b.port};{speed};{link.cable_m:g}"
        for link, speed in zip(
            DESIGN.links, ["400", "400G", "400Gbps", "0.4Tbps", "400GbE", "400"], strict=True
        )
    )
    assert built(("cables.csv", f"# as built\n{heading}\n{rows}")).topology == DESIGN


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "cables.csv", "is empty"),
        ("a,b\n1,2", "cables.csv:1", "no column for a_port, b_port"),
        (
            "a_node,a_port,b_node,b_port\nserver-1,,leaf-s1-r1,x",
            "cables.csv:2",
            '"a_port" is empty',
        ),
        (
            "a_node,a_port,b_node,b_port,speed\nserver-1,x,leaf-s1-r1,y,fast",
            "cables.csv:2",
            '"fast" is not a link speed',
        ),
        (
            "a_node,a_port,b_node,b_port,speed\nqux,x,leaf-s1-r1,y,400",
            "cables.csv:2",
            'unknown role of "qux"',
        ),
        (
            "a_node,a_port,b_node,b_port,speed\nleaf-s1-r1,x,leaf-s1-r1,y,400",
            "cables.csv:2",
            "connected to its own port y",
        ),
        (
            "a_node,a_port,b_node,b_port\nleaf-s1-r9,x,spine-1,y",
            "cables.csv:2",
            "unknown link speed",
        ),
    ],
)
def test_wrong_csv_raises_input_error_with_its_line(text: str, where: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        built(("cables.csv", text))
    problem = caught.value.problems[0]
    assert problem.where == where
    assert what in problem.what
    assert problem.fix


def test_swapped_rails_missing_links_and_wrong_ports_are_reported() -> None:
    text = table().replace("leaf-s1-r1,et-0/0/0,server-1", "leaf-s1-r1,et-0/0/0,swap")
    text = text.replace("leaf-s1-r2,et-0/0/0,server-1", "leaf-s1-r1,et-0/0/0,server-1")
    text = text.replace("leaf-s1-r1,et-0/0/0,swap", "leaf-s1-r2,et-0/0/0,server-1")
    text = text.replace("leaf-s1-r1,et-0/0/1,server-2", "leaf-s1-r1,et-0/0/7,server-2")
    text = "\n".join(line for line in text.splitlines() if "leaf-s1-r2,et-0/0/32" not in line)
    rows = differences(("cables.csv", text))
    assert ("rail", "server-1 gpu0_eth") in [row[:2] for row in rows]
    rail = next(row for row in rows if row[:2] == ("rail", "server-1 gpu0_eth"))
    assert "rail 1 is wired to rail 2" in rail[2]
    assert "swapped with server-1 gpu1_eth" in rail[2]
    assert ("port", "server-2 gpu0_eth") in [row[:2] for row in rows]
    assert [row[1] for row in rows if row[0] == "missing-link"] == [
        "leaf-s1-r2 et-0/0/32 – spine-1 et-0/0/1"
    ]
    assert len(rows) == 4


def test_wrong_speed_and_cable_length_are_reported() -> None:
    text = table().replace("server-1,gpu0_eth,400,5", "server-1,gpu0_eth,200,5")
    text = text.replace("et-0/0/32,spine-1,et-0/0/0,400,40", "et-0/0/32,spine-1,et-0/0/0,400,90")
    assert [(row[0], row[2]) for row in differences(("cables.csv", text))] == [
        ("link-speed", "400Gbps expected, 200Gbps found"),
        ("cable-length", "length 40m expected, 90m found"),
    ]


def neighbour(device: str, port: str, kind: str = "ifname", note: str = "") -> dict[str, object]:
    """A neighbour as lldpctl writes it."""
    descr = {"descr": note} if note else {}
    return {
        "chassis": {device: {"id": {"type": "mac", "value": "00:00:00:00:00:01"}}},
        "port": {"id": {"type": kind, "value": port}, **descr},
    }


def test_lldpctl_json_is_read() -> None:
    report = {
        "lldp": {
            "interface": [
                {"gpu0_eth": neighbour("leaf-s1-r1.example.net", "et-0/0/0")},
                {"gpu1_eth": neighbour("LEAF-S1-R2", "aa:bb:cc:dd:ee:ff", "mac", "et-0/0/0")},
            ]
        }
    }
    single = {"lldp": {"interface": {"gpu0_eth": neighbour("leaf-s1-r1", "et-0/0/1")}}}
    links = built(
        ("server-1.json", json.dumps(report)), ("server-2.json", json.dumps(single))
    ).topology.links
    assert set(links) == {link for link in DESIGN.links if link.b.node.startswith("server")} - {
        next(link for link in DESIGN.links if link.b == End(node="server-2", port="gpu1_eth"))
    }


def test_lldpctl_json0_is_read() -> None:
    report = {
        "lldp": [
            {
                "interface": [
                    {
                        "name": "gpu0_eth",
                        "chassis": [
                            {
                                "name": [{"value": "leaf-s1-r1"}],
                                "id": [{"type": "mac", "value": "x"}],
                            }
                        ],
                        "port": [{"id": [{"type": "ifname", "value": "et-0/0/0"}]}],
                    }
                ]
            }
        ]
    }
    assert built(("server-1.json", json.dumps(report))).topology.links[0] in DESIGN.links


JUNOS = """\
root@leaf-s1-r1> show lldp neighbors

Local Interface    Parent Interface    Chassis Id          Port info          System Name
et-0/0/0           -                   b8:ce:f6:00:00:01   gpu0_eth           server-1
et-0/0/1           -                   b8:ce:f6:00:00:02   gpu0_eth           server-2
et-0/0/32          -                   2c:6b:f5:00:00:01   {port}           spine-1
re0:mgmt-0         -                   00:00:5e:00:53:01   ge-0/0/7           oob-1

root@leaf-s1-r2> show lldp neighbors
Local Interface    Parent Interface    Chassis Id          Port info          System Name
et-0/0/0.0         -                   b8:ce:f6:00:00:01   gpu1_eth           server-1
et-0/0/1           -                   b8:ce:f6:00:00:02   gpu1_eth           server-2
et-0/0/32          -                   2c:6b:f5:00:00:01   et-0/0/1           spine-1
"""


@pytest.mark.parametrize("port", ["et-0/0/0", "to leaf-s1-r1 et-0/0/32"])
def test_junos_neighbours_of_several_devices_are_read(port: str) -> None:
    # Junos prints the neighbour's port description, which in gpuyard's designs names the far end.
    assert differences(("leaves.txt", JUNOS.format(port=port))) == []


def test_sonic_table_and_text_are_read() -> None:
    rows = """\
admin@leaf-s1-r1:~$ show lldp table
Capability codes: (R) Router, (B) Bridge, (O) Other
LocalPort    RemoteDevice    RemotePortID       Capability    RemotePortDescr
-----------  --------------  -----------------  ------------  ---------------
Ethernet0    server-1        b8:ce:f6:00:00:01  BR            gpu0_eth
Ethernet8    spine-1         Ethernet64         BR            leaf-s1-r1
--------------------------------------------------
Total entries displayed:  2
"""
    text = """\
-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    Ethernet64, via: LLDP, RID: 1, Time: 0 day, 01:34:39
  Chassis:
    ChassisID:    mac cc:d3:42:ca:18:00
    SysName:      leaf-s1-r1
    Capability:   Router, on
  Port:
    PortID:       ifname Ethernet8
    PortDescr:    to spine-1
    TTL:          120
-------------------------------------------------------------------------------
Interface:    eth0, via: LLDP, RID: 2, Time: 0 day, 01:34:39
  Chassis:
    ChassisID:    mac cc:d3:42:ca:18:01
"""
    read = read_reports(
        [
            CablingReport(file="leaf.txt", text=rows),
            CablingReport(file="lldp/spine-1.txt", text=text),
        ]
    )
    assert [(str(one.near), str(one.far)) for one in read] == [
        ("leaf-s1-r1 Ethernet0", "server-1 gpu0_eth"),
        ("leaf-s1-r1 Ethernet8", "spine-1 Ethernet64"),
        ("spine-1 Ethernet64", "leaf-s1-r1 Ethernet8"),
    ]
    topology = as_built(read, None, 400e9).topology
    assert len(topology.links) == 2
    assert {node.name: node.rail for node in topology.nodes if node.role == "leaf"} == {
        "leaf-s1-r1": 0
    }


def test_conflicting_reports_are_reported() -> None:
    head = "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n"
    leaf = f"root@leaf-s1-r1> show lldp neighbors\n{head}et-0/0/32  -  2c:6b:f5:00:00:01  et-0/0/0  spine-1\n"
    spine = f"root@spine-1> show lldp neighbors\n{head}et-0/0/0  -  2c:6b:f5:00:00:02  et-0/0/33  leaf-s1-r1\n"
    conflicts = built(("both.txt", leaf + spine)).conflicts
    assert len(conflicts) == 2
    assert "leaf-s1-r1 et-0/0/32" in conflicts[0].what
    assert "does not see it" in conflicts[1].what


def test_report_without_neighbours_raises_input_error() -> None:
    head = "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n"
    with pytest.raises(InputError, match="contains no neighbour"):
        built(("leaf-s1-r1.txt", head))
