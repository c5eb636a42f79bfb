"""Simulations told: tables, page, heat map, timeline."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from gpuyard.app.collectives import Collective, simulate_collective
from gpuyard.app.networks import site_for
from gpuyard.app.shapes import Wanted, shaped_site
from gpuyard.app.simulate import Play, read_traffic, simulate_traffic
from gpuyard.errors import Infeasible
from gpuyard.report.simulation import links_table, simulation_table, summary_fields
from gpuyard.report.simulation_map import colour_of, pair_map
from gpuyard.report.simulation_page import simulation_page
from gpuyard.report.simulation_trace import trace_json
from gpuyard.simulate.summary import Simulation

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(engine: str = "packet") -> Simulation:
    file = read_traffic(EXAMPLES / "permutation.cm")
    return simulate_traffic(shaped_site(Wanted(hosts=16)), file, Play(engine=engine))  # type: ignore[arg-type]


def rounds() -> Simulation:
    site = site_for(Wanted(shape="rails", hosts=1024))
    assert not isinstance(site, Infeasible)
    asked = Collective(name="all-reduce", size_bytes=1e9, algorithm="hierarchical", channels=2)
    return simulate_collective(site, asked, Play(engine="flow"))


@pytest.mark.parametrize("made", [run, lambda: run("flow"), rounds])
def test_the_page_is_whole_and_loads_nothing(made: object) -> None:
    text = simulation_page(made())  # type: ignore[operator]
    assert text.startswith("<!doctype html>")
    assert "Load of the links" in text
    assert "Timeline" in text
    assert not re.search(r'(src|href)="', text)
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "nan" not in re.sub(r"<title>.*?</title>", "", text)
    assert text.count("<svg") == text.count("</svg>")


def test_wires_are_coloured_by_load() -> None:
    done = run()
    text = simulation_page(done)
    told = re.findall(r"<title>([^<]*), (\d+)% up, (\d+)% down</title>", text)
    assert told
    most = max(int(share) for _, up, down in told for share in (up, down))
    assert most == pytest.approx(100 * (done.summary.link_max_ratio or 0), abs=1.0)


def test_colours_rise_from_grey_to_dark_red() -> None:
    assert colour_of(0.0) == "rgb(208,215,222)"
    assert colour_of(1.0) == colour_of(7.0) == "rgb(128,0,38)"
    assert len({colour_of(share / 10) for share in range(11)}) == 11


def test_every_pair_of_switches_has_a_cell() -> None:
    cells = re.findall(r"<title>(leaf\d+ → spine\d+)", pair_map(run()))
    assert len(cells) == len(set(cells)) == 16  # eight leaves with two spines each


def test_slices_of_one_track_never_overlap() -> None:
    done = run("flow")
    events = [event for event in json.loads(trace_json(done))["traceEvents"] if event["ph"] == "X"]
    assert len(events) == done.summary.flows
    tracks: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(spans))


def test_phases_have_a_track_of_their_own() -> None:
    done = rounds()
    names = [event["name"] for event in json.loads(trace_json(done))["traceEvents"]]
    assert names == [phase.label for phase in done.phases]


def test_what_is_not_known_has_no_row_and_is_null() -> None:
    done = run("flow").summary
    assert summary_fields(done)["drops"] is None
    labels = [row[0] for row in simulation_table(done).rows]
    assert "drops" not in labels
    assert "completion" in labels
    assert len(links_table(done).columns) == 3
    assert len(links_table(run().summary).columns) == 5
