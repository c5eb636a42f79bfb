"""The way of a workload as a table and as a page."""

from __future__ import annotations

from gpuyard.jobs.way import Outcome, Way
from gpuyard.perf.local import Compared
from gpuyard.report.up import MARKS, compared_table, up_page, way_table

WAY = Way(
    name="<b>iris</b>", target="this machine", folder="up/iris", next="gpuyard ui",
    stages=(
        Outcome(name="check", state="kept", what="valid"),
        Outcome(name="train", state="done", what="20 steps & <more>", seconds=3.25),
        Outcome(name="select", state="skipped", what="the pipeline does not ask for it"),
    ),
)  # fmt: skip
ROWS = (
    Compared(name="step time", unit="s", predicted=0.011, measured=0.010),
    Compared(name="memory", unit="B", predicted=9e8, measured=1e9),
    Compared(name="requests a core-second", unit="/s", predicted=9000.0, measured=0.0),
)


def test_every_stage_has_its_mark_and_the_way_on() -> None:
    table = way_table(WAY)
    assert [row[:2] for row in table.rows] == [("check", "✓ kept"), ("train", "✓"), ("select", "–")]
    assert table.rows[1][2] == "3.25s"
    assert table.notes == ("next: gpuyard ui",)
    assert set(MARKS) == {"done", "kept", "skipped", "planned", "stopped"}


def test_predicted_beside_measured_in_their_units() -> None:
    assert compared_table(ROWS).rows == (
        ("step time", "11ms", "10ms", "+10%"), ("memory", "900MB", "1GB", "-10%"),
        ("requests a core-second", "9,000/s", "0/s", "+inf%"),
    )  # fmt: skip


def test_the_page_holds_all_of_it_and_no_markup_of_others() -> None:
    text = up_page(WAY, ROWS)
    assert "Predicted against measured" in text
    assert "&lt;b&gt;iris&lt;/b&gt;" in text
    assert "<b>iris" not in text
    assert "&amp; &lt;more&gt;" in text
    assert "Predicted against measured" not in up_page(WAY)
