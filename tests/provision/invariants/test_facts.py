"""Deployment facts: sources, and agreement with the catalog."""

from __future__ import annotations

import pytest

from gpuyard.provision.invariants.facts import gke_version, read_facts

from ..trees import catalog


def test_every_fact_has_a_source() -> None:
    facts = read_facts()
    known = {source.name for source in facts.sources}
    for table in (facts.fabrics, facts.releases, facts.cloud_run, facts.features):
        for row in table:
            assert row.source, row.name
            assert set(row.source) <= known, row.name


def test_fabrics_match_the_catalog() -> None:
    for fabric in read_facts().fabrics:
        machine = catalog().machine(fabric.name)
        assert machine.network.technology == fabric.technology
        assert machine.network.mtu_bytes in (None, fabric.mtu_bytes)
        if (
            machine.network.nic_count and fabric.name != "a4x-maxgpu-4g-metal"
        ):  # whose NICs show as two interfaces each
            assert machine.network.nic_count == fabric.host_nic_count + fabric.data_nic_count


def test_every_machine_with_gpu_fabric_has_a_row() -> None:
    wanted = {
        machine.name
        for machine in catalog().machines
        if machine.provider == "google" and machine.network.technology in ("roce", "tcpx", "tcpxo")
    }
    assert {fabric.name for fabric in read_facts().fabrics} == wanted


def test_releases_are_ordered_newest_first() -> None:
    for technology in ("tcpx", "tcpxo"):
        dates = [row.date for row in read_facts().releases if row.technology == technology]
        assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.32.2-gke.1475000", (1, 32, 2, 1475000)),
        ("v1.31.4-gke.1", (1, 31, 4, 1)),
        ("1.32.", (1, 32)),
        ("latest", None),
        ("-", None),
    ],
)
def test_gke_version_is_parsed(text: str, version: tuple[int, ...] | None) -> None:
    assert gke_version(text) == version
