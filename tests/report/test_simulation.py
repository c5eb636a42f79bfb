"""Reports of a simulation: tables, page, heat map, trace."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.report.simulation import links_table, simulation_table, summary_fields
from gpuyard.report.simulation_map import colour_of, pair_map
from gpuyard.report.simulation_page import simulation_page
from gpuyard.report.simulation_trace import simulation_trace_json
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.run_traffic import SimulationOptions, read_traffic, simulate_traffic
from gpuyard.simulate.sites.named_topologies import NetworkOptions, shaped_site
from gpuyard.simulate.sites.networks import network_setup
from gpuyard.simulate.summary import SimulationResult

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(engine: str = "packet") -> SimulationResult:
    file = read_traffic(EXAMPLES / "permutation.cm")
    return simulate_traffic(
        shaped_site(NetworkOptions(hosts=16)), file, SimulationOptions(engine=engine)
    )  # type: ignore[arg-type]


def rounds() -> SimulationResult:
    site = network_setup(NetworkOptions(shape="rails", hosts=1024), load_catalog())
    assert not isinstance(site, Infeasible)
    collective = Collective(name="all-reduce", size_bytes=1e9, algorithm="hierarchical", channels=2)
    return simulate_collective(site, collective, SimulationOptions(engine="flow"))


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [run, lambda: run("flow"), rounds])
def test_page_has_valid_charts_and_no_external_resources(
    simulate: Callable[[], SimulationResult],
) -> None:
    text = simulation_page(simulate())
    assert text.startswith("<!doctype html>")
    assert not re.search(r'(src|href)="', text)
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "nan" not in re.sub(r"<title>.*?</title>", "", text)
    assert text.count("<svg") == text.count("</svg>")


def test_links_show_their_load() -> None:
    done = run()
    text = simulation_page(done)
    loads = re.findall(r"<title>([^<]*), (\d+)% up, (\d+)% down</title>", text)
    assert loads
    most = max(int(share) for _, up, down in loads for share in (up, down))
    assert most == pytest.approx(100 * (done.summary.link_max_ratio or 0), abs=1.0)


def test_colours_run_from_grey_to_dark_red() -> None:
    assert colour_of(0.0) == "rgb(208,215,222)"
    assert colour_of(1.0) == colour_of(7.0) == "rgb(128,0,38)"
    assert len({colour_of(share / 10) for share in range(11)}) == 11


def test_every_pair_of_switches_has_a_cell() -> None:
    cells = re.findall(r"<title>(leaf\d+ → spine\d+)", pair_map(run()))
    assert len(cells) == len(set(cells)) == 16  # eight leaves with two spines each


def test_slices_of_one_track_never_overlap() -> None:
    done = run("flow")
    events = [
        event
        for event in json.loads(simulation_trace_json(done))["traceEvents"]
        if event["ph"] == "X"
    ]
    assert len(events) == done.summary.flows
    tracks: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(spans))


def test_trace_has_one_slice_per_phase() -> None:
    done = rounds()
    names = [event["name"] for event in json.loads(simulation_trace_json(done))["traceEvents"]]
    assert names == [phase.label for phase in done.phases]


def test_unknown_values_are_null_and_have_no_row() -> None:
    done = run("flow").summary
    assert summary_fields(done)["drops"] is None
    labels = [row[0] for row in simulation_table(done).rows]
    assert "drops" not in labels
    assert "completion" in labels
    assert len(links_table(done).columns) == 3
    assert len(links_table(run().summary).columns) == 5
