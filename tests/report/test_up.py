"""The report of `gpuyard up`: the table of stages, the comparison and the page."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from gpuyard.app.up_report import StageOutcome, State, UpReport
from gpuyard.perf.local.comparison import PredictedVsMeasured
from gpuyard.report.comparison_plot import comparison_plot
from gpuyard.report.up import MARKS, compared_table, stages_table, up_page

REPORT = UpReport(
    name="<b>iris</b>",
    target="this machine",
    folder="up/iris",
    next="gpuyard ui",
    stages=(
        StageOutcome(name="check", state="cached", what="valid"),
        StageOutcome(name="train", state="done", what="20 steps & <more>", seconds=3.25),
        StageOutcome(name="select", state="skipped", what="not in the pipeline"),
    ),
)
ROWS = (
    PredictedVsMeasured(
        name="step time", unit="s", predicted=0.011, measured=0.010, stated_ratio=0.05
    ),
    PredictedVsMeasured(name="memory", unit="B", predicted=9e8, measured=1e9),
    PredictedVsMeasured(name="requests per core", unit="/s", predicted=9000.0, measured=0.0),
)


def test_stages_table_marks_stages_and_puts_those_that_do_not_apply_below() -> None:
    table = stages_table(REPORT)
    marks = [("check", "✓ cached"), ("train", "✓")]
    assert [row[:2] for row in table.rows] == marks
    assert [row[2] for row in table.rows] == ["", "3.25s"]
    assert table.notes == ("not needed: select: not in the pipeline", "next: gpuyard ui")


def test_every_stage_state_has_a_mark() -> None:
    assert set(MARKS) == set(get_args(State))


def test_compared_table_shows_values_in_their_units() -> None:
    assert compared_table(ROWS).rows == (
        ("step time", "11ms", "10ms", "+10%", "±5%", "outside"),
        ("memory", "900MB", "1GB", "-10%", "", ""),
        ("requests per core", "9,000/s", "0/s", "+inf%", "", ""),
    )
    assert compared_table(ROWS).notes[0].startswith("outside: ")
    assert compared_table(ROWS[1:]).notes == ()


def test_comparison_plot_draws_the_stated_error_and_marks_what_is_outside() -> None:
    drawn = comparison_plot(ROWS)
    assert "±5%" in drawn
    assert drawn.count("<circle") == 2  # a quantity that was not measured has no place
    assert comparison_plot(ROWS[2:]) == ""


def test_up_page_opens_with_the_answer_and_the_version() -> None:
    served = StageOutcome(name="deploy", state="done", what="http://127.0.0.1:1/v2")
    text = up_page(replace(REPORT, stages=(served,)), stamp="gpuyard 1, today")
    assert text.index("gpuyard 1, today") < text.index("Served at http://127.0.0.1:1/v2")
    assert text.index("headline") < text.index("<table")


def test_up_page_escapes_names_and_outcomes() -> None:
    text = up_page(REPORT, ROWS)
    assert "&lt;b&gt;iris&lt;/b&gt;" in text
    assert "<b>iris" not in text
    assert "&amp; &lt;more&gt;" in text


def test_up_page_has_a_comparison_only_when_something_was_compared() -> None:
    assert "11ms" in up_page(REPORT, ROWS)
    assert "<h2>" not in up_page(REPORT)
