"""Junos statements against the shapes found in Juniper's validated design and documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.switch_os_list import switch_os

SHAPES = {
    line
    for line in (Path(__file__).parent / "junos_statements.txt")
    .read_text(encoding="utf-8")
    .splitlines()
    if not line.startswith("#")
}
# After these words stands a name of the user's own.
NAMED = {
    "host-name", "interfaces", "policy-statement", "term", "community", "dscp", "forwarding-class", "drop-profiles",
    "class", "congestion-notification-profile", "scheduler-maps", "scheduler", "schedulers", "scheduler-map", "group",
    "neighbor", "description", "local-address", "routing-instances", "interface", "export", "as-list",
    "dynamic-neighbor", "drop-profile", "router-id", "address", "peer-as-list", "route-distinguisher", "vrf-target",
    "add", "members",
}  # fmt: skip
CASES = ("ipv4", "unnumbered", "tenants", "tenants-unnumbered", "frontend")


def shape(line: str) -> str:
    """A statement without its names and numbers."""
    words: list[str] = []
    before = ""
    for word in re.findall(r'"[^"]*"|\[[^\]]*\]|\S+', line):
        if before in NAMED and (before, word) not in {
            ("community", "add"),
            ("interfaces", "lo0"),
            ("dscp", "code-point"),
        }:
            words.append("<name>")
        elif before == "code-points" or re.fullmatch("[01]{3,6}", word):
            words.append("<bits>")
        elif word.startswith("["):
            words.append("<list>")
        elif re.fullmatch("[0-9]+g?", word):
            words.append("<n>")
        else:
            words.append("<ip>" if re.fullmatch("[0-9./:]+", word) else word)
        before = word
    return " ".join(words)


def statements(fabric: Fabric) -> dict[str, list[str]]:
    return {
        file.path.split("/")[1]: [line for line in file.text.splitlines() if line[0] != "#"]
        for file in switch_os("junos").render(fabric)
    }


@pytest.mark.parametrize("case", CASES)
def test_every_statement_is_known(case: str, variants: Callable[[str], dict[str, Fabric]]) -> None:
    for name, lines in statements(variants("junos")[case]).items():
        assert sorted({line for line in lines if shape(line) not in SHAPES}) == [], name


@pytest.mark.parametrize("balancing", ["ecmp", "flowlet", "per-packet", "global", "spray"])
def test_every_balancing_mode_renders(balancing: str, make: Callable[..., Fabric]) -> None:
    texts = statements(make("junos", balancing=balancing))
    for lines in texts.values():
        assert [line for line in lines if shape(line) not in SHAPES] == []
        assert any("ecmp-dlb" in line for line in lines) == (balancing != "ecmp")
    if balancing == "global":
        assert "set protocols bgp global-load-balancing load-balancer-only" in texts["leaf-s1-r1"]
        assert "set protocols bgp global-load-balancing helper-only" in texts["spine-1"]


def test_unknown_statement_is_rejected() -> None:
    assert shape("set protocols bgp groups ABOVE type external") not in SHAPES


def test_class_of_service_matches_the_validated_design(make: Callable[..., Fabric]) -> None:
    lines = statements(make("junos"))["leaf-s1-r1"]
    for wanted in (
        "forwarding-classes class NO-LOSS queue-num 4 no-loss pfc-priority 3",
        "forwarding-classes class CNP queue-num 3",
        "classifiers dscp roce forwarding-class NO-LOSS loss-priority low code-points 011010",
        "drop-profiles ecn interpolate fill-level [ 55 90 ]",
        "shared-buffer ingress buffer-partition lossless-headroom percent 24",
        "congestion-notification-profile pfc-40m output ieee-802.1 code-point 011 flow-control-queue 4",
        "schedulers CNP priority strict-high",
    ):
        assert f"set class-of-service {wanted}" in lines


def test_older_qfx_render_equal_lossless_shares(make: Callable[..., Fabric]) -> None:
    lines = statements(
        make("junos", leaf="qfx5230-64cd", spine="qfx5230-64cd", oversubscription_ratio=31.0)
    )["leaf-s1-r1"]
    assert (
        "set class-of-service shared-buffer ingress buffer-partition lossless percent 80" in lines
    )
    assert "set class-of-service shared-buffer egress buffer-partition lossless percent 80" in lines
    assert not any("number-of-sub-ports" in line for line in lines)


def test_chassis_has_no_buffer_partition(make: Callable[..., Fabric]) -> None:
    texts = statements(make("junos", spine="ptx10008"))
    assert any("shared-buffer" in line for line in texts["leaf-s1-r1"])
    assert not any("shared-buffer" in line for line in texts["spine-1"])
    assert any("congestion-notification-profile" in line for line in texts["spine-1"])
