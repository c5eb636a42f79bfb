from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.topology.columns import from_json, from_plain, to_json, to_plain
from gpuyard.topology.topology import Topology

from .shapes import rail_fabric, topologies, two_planes

FABRIC = rail_fabric()


def problems(data: object) -> list[str]:
    """Where and what of each problem."""
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(data), "built.json")
    assert all(problem.fix for problem in caught.value.problems)
    return [f"{problem.where}: {problem.what}" for problem in caught.value.problems]


@given(topologies())
def test_saved_topology_loads_unchanged(topology: Topology) -> None:
    text = to_json(topology)
    again = from_json(text)
    assert again == topology
    assert to_json(again) == text
    assert from_plain(to_plain(topology)) == topology
    assert text.encode().decode() == text


@given(topologies())
def test_equal_topologies_are_saved_as_equal_bytes(topology: Topology) -> None:
    other = Topology(nodes=topology.nodes[::-1], links=topology.links[::-1])
    assert to_json(other) == to_json(topology)


def test_format_of_a_small_topology() -> None:
    plain = to_plain(two_planes(servers=1, leaves=1))
    assert plain == {
        "format": "gpuyard-topology-1",
        "nodes": {
            "name": ["leaf0-p0", "leaf0-p1", "server0", "spine-p0", "spine-p1"],
            "role": ["leaf", "leaf", "server", "spine", "spine"],
            "plane": [0, 1, None, 0, 1],
            "ports": [None, None, 0, None, None],
        },
        "port_sets": [{"name": ["gpu0p0", "gpu0p1"], "rail": [0, 0], "plane": [0, 1]}],
        "links": {
            "a_node": [0, 0, 1, 1],
            "a_port": [0, 2, 0, 2],
            "b_node": [2, 3, 2, 4],
            "b_port": [1, 0, 3, 0],
            "cable": [0, 0, 0, 0],
        },
        "port_names": ["down0", "gpu0p0", "up", "gpu0p1"],
        "cables": {"speed_bits_per_s": [400e9]},
    }


def test_empty_topology_round_trips() -> None:
    empty = Topology(nodes=(), links=())
    assert from_json(to_json(empty)) == empty


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("format",), "gpuyard-topology-9", "built.json: format: not gpuyard-topology-1"),
        (("nodes", "role", 0), "tor", 'built.json: nodes[0]: no role "tor"'),
        (
            ("nodes", "rail", 0),
            1.5,
            "built.json: nodes.rail[0]: expected an integer or null, got 1.5",
        ),
        (
            ("nodes", "rail", 0),
            True,
            "built.json: nodes.rail[0]: expected an integer or null, got true",
        ),
        (("nodes", "rail", 0), -1, "built.json: nodes[0]: rail -1 is negative"),
        (("nodes", "name", 0), None, "built.json: nodes.name[0]: expected a string, got null"),
        (
            ("nodes", "name", 0),
            "\ud800",
            'built.json: nodes[0]: name "\\ud800" is not a plain name',
        ),
        (
            ("nodes", "ports", 8),
            7,
            "built.json: nodes.ports[8]: 7 is out of range for port_sets (length 1)",
        ),
        (("nodes", "model"), ["x"], "built.json: nodes.model: has 1 values, and name has 14"),
        (
            ("nodes", "attributes"),
            [{"k": 1}, *[None] * 13],
            'built.json: nodes.attributes[0]: expected strings by name such as {"rack": "A1"} or null, got keys and values',
        ),
        (
            ("links", "a_node", 3),
            99,
            "built.json: links.a_node[3]: 99 is out of range for nodes (length 14)",
        ),
        (
            ("links", "a_node", 3),
            -1,
            "built.json: links.a_node[3]: -1 is out of range for nodes (length 14)",
        ),
        (("links", "cable"), 5, "built.json: links.cable: expected a list, got 5"),
        (("links", "b_port", 0), [], "built.json: links.b_port[0]: expected an index, got a list"),
        (("links", "colour"), [], 'built.json: links: unknown key "colour"'),
        (("links",), [], "built.json: links: expected a table, got a list"),
        (
            ("cables", "speed_bits_per_s", 0),
            "400G",
            'built.json: cables.speed_bits_per_s[0]: expected a number, got "400G"',
        ),
        (
            ("cables", "speed_bits_per_s", 0),
            float("nan"),
            "built.json: not JSON: NaN is not a JSON number",
        ),
        (
            ("cables", "speed_bits_per_s", 0),
            10**400,
            "built.json: cables.speed_bits_per_s[0]: expected a number, got a huge number",
        ),
        (("cables", "cable_m"), [-1], None),
        (("port_sets",), {}, "built.json: port_sets: expected a list, got keys and values"),
        (
            ("port_sets", 0, "name", 0),
            3,
            "built.json: port_sets[0].name[0]: expected a string, got 3",
        ),
        (("port_names", 1), None, "built.json: port_names[1]: expected a string, got null"),
        (("extra",), 1, 'built.json: unknown key "extra"'),
    ],
)
def test_wrong_value_is_reported_with_its_place(
    place: tuple[str | int, ...], value: object, expected: str | None
) -> None:
    data: Any = to_plain(FABRIC)
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    reported = problems(data)
    if expected is None:
        assert len(reported) == len(FABRIC.links)
        assert reported[0].endswith("cable length is -1 m")
    else:
        assert reported == [expected]


def test_missing_keys_are_reported_together() -> None:
    assert problems({"format": "gpuyard-topology-1", "nodes": {}, "lnks": {}}) == [
        'built.json: unknown key "lnks"',
        'built.json: "links" is missing',
        'built.json: "port_names" is missing',
        'built.json: "cables" is missing',
    ]


def test_missing_column_is_reported_once_without_blaming_links() -> None:
    data: Any = to_plain(FABRIC)
    del data["nodes"]["name"]
    assert problems(data) == ['built.json: nodes: "name" is missing']


def test_wrong_wiring_is_reported_with_its_index_in_the_file() -> None:
    data: Any = to_plain(FABRIC)
    for column in ("a_node", "a_port"):
        data["links"][column][3] = data["links"][column][2]
    assert problems(data) == ["built.json: links[3]: leaf0.0 up0.0 already has a cable (links[2])"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "x.json:1"),
        ('{"format":\n 1,,}', "x.json:2"),
        ("[" * 100_000, "x.json"),
        ("1" * 5000, "x.json"),
    ],
)
def test_invalid_json_raises_input_error(text: str, where: str) -> None:
    with pytest.raises(InputError, match=r"not JSON|nested too deep") as caught:
        from_json(text, "x.json")
    assert caught.value.problems[0].where == where


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(anything)
def test_unrelated_json_raises_input_error(data: object) -> None:
    with pytest.raises(InputError):
        from_json(json.dumps(data))


@given(st.text(max_size=40))
def test_arbitrary_text_raises_input_error(text: str) -> None:
    with pytest.raises(InputError):
        from_json(text)


@st.composite
def spoilt(draw: st.DrawFn) -> object:
    """A saved topology in which a few places were overwritten, removed or added."""
    data: Any = copy.deepcopy(to_plain(draw(topologies(max_nodes=4, ports=2))))
    for _ in range(draw(st.integers(1, 3))):
        inner = data
        for _ in range(draw(st.integers(0, 3))):
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            deeper = [key for key in keys if isinstance(inner[key], dict | list)]
            if not deeper:
                break
            inner = inner[draw(st.sampled_from(deeper))]
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if keys and draw(st.booleans()):
            inner[draw(st.sampled_from(keys))] = draw(anything)
        elif keys and draw(st.booleans()):
            del inner[draw(st.sampled_from(keys))]
        elif isinstance(inner, list):
            inner.append(draw(anything))
        else:
            inner[draw(st.text(max_size=5))] = draw(anything)
    return data


@pytest.mark.slow
@settings(max_examples=300)
@given(spoilt())
def test_corrupted_file_raises_input_error_or_loads(data: object) -> None:
    try:
        topology = from_json(json.dumps(data), "spoilt.json")
    except InputError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.where.startswith("spoilt.json")
            assert problem.what
            assert problem.fix
            assert str(problem).encode()
    else:
        assert from_json(to_json(topology)) == topology
