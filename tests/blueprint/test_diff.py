"""Diff of blueprints: headlines with relative changes, then every value, cut at a maximum."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.blueprint.blueprint import Evidence
from gpuyard.blueprint.diff import MAX_CHANGES, diff_blueprints

from .samples import blueprint_of


def test_diff_lists_headlines_with_relative_change() -> None:
    before = blueprint_of()
    cluster = replace(before.option.cluster, machine_count=4)
    bill = replace(before.option.bills[0], usd=720.0, usd_per_hour=30.0, consumption="on-demand")
    option = replace(before.option, cluster=cluster, bills=(bill,))
    after = replace(before, consumption="on-demand", option=option)
    changes = [str(change) for change in diff_blueprints(before, after)]
    assert "machines: 2 → 4 (+100%)" in changes
    assert "consumption: spot → on-demand" in changes
    assert "cost: $480 → $720 (+50%)" in changes


def test_diff_of_equal_blueprints_is_empty() -> None:
    assert diff_blueprints(blueprint_of(), blueprint_of()) == ()


def test_diff_reports_new_evidence() -> None:
    finding = Evidence(kind="finding", name="headroom", what="too small", severity="error")
    note = Evidence(kind="finding", name="paths", what="4 paths")
    changes = diff_blueprints(blueprint_of(), replace(blueprint_of(), evidence=(finding, note)))
    assert [str(change) for change in changes] == ["findings: none → headroom: too small"]


def test_diff_shows_values_with_their_units() -> None:
    before = blueprint_of()
    after = replace(before, option=replace(before.option, memory_bytes=2e9))
    (change,) = diff_blueprints(before, after)
    assert change.what == "option.memory_bytes"
    assert change.after == "2GB"


def test_long_diff_is_cut() -> None:
    changes = diff_blueprints(blueprint_of(), blueprint_of("ct6e-standard-4t", "service"))
    assert len(changes) == MAX_CHANGES + 1
    assert changes[0].what == "task"
    assert changes[-1].what == "and more"
