"""startup.yaml against the commands that NVUE documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.switch_os_list import switch_os

PATHS = [
    line.split()
    for line in (Path(__file__).parent / "nvue_paths.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
CASES = ("ipv4", "unnumbered", "tenants", "tenants-unnumbered", "frontend")


def leaves(node: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of a tree, with its value at the end."""
    if not isinstance(node, dict):
        yield (*path, str(node))
    elif not node:
        yield path
    else:
        for key, value in node.items():
            yield from leaves(value, (*path, str(key)))


def documented(path: tuple[str, ...]) -> bool:
    """Whether NVUE takes it: the words agree, and what stands in brackets may be anything."""
    return any(
        len(known) in (len(path), len(path) - 1)
        and all(
            word.startswith("<") or word == part for word, part in zip(known, path, strict=False)
        )
        for known in PATHS
    )


def settings(fabric: Fabric) -> dict[str, dict[str, object]]:
    settings_by_switch = {}
    for file in switch_os("cumulus").render(fabric):
        (entry,) = yaml.safe_load(file.text)
        assert set(entry) == {"set"}
        settings_by_switch[file.path.split("/")[1]] = entry["set"]
    return settings_by_switch


@pytest.mark.parametrize("case", CASES)
def test_every_key_is_documented(case: str, variants: Callable[[str], dict[str, Fabric]]) -> None:
    for name, tree in settings(variants("cumulus")[case]).items():
        assert [path for path in leaves(tree) if not documented(path)] == [], name


def test_undocumented_key_is_rejected() -> None:
    assert not documented(("router", "bgp", "autonomous-systems", "65000"))
    assert not documented(("qos", "roce"))


def test_each_cable_length_has_a_pfc_profile(make: Callable[..., Fabric]) -> None:
    tree = settings(make("cumulus"))["leaf-s1-r1"]
    text = "\n".join("/".join(path) for path in leaves(tree))
    assert "qos/pfc/roce-5m/cable-length/5" in text
    assert "qos/pfc/roce-40m/cable-length/40" in text
    assert "interface/swp1s0/qos/pfc/profile/roce-5m" in text
    assert "interface/swp64s1/qos/pfc/profile/roce-40m" in text
    assert "interface/swp1/link/breakout/2x" in text


def test_adaptive_routing_is_on_only_for_uplinks(make: Callable[..., Fabric]) -> None:
    tree = settings(make("cumulus"))["leaf-s1-r1"]
    text = "\n".join("/".join(path) for path in leaves(tree))
    assert "router/adaptive-routing/state/enabled" in text
    assert "interface/swp64s1/router/adaptive-routing/state/enabled" in text
    assert "interface/swp1s0/router" not in text
