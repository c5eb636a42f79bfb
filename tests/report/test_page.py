"""HTML pages and tables."""

from __future__ import annotations

from gpuyard.report.page import html_table, page
from gpuyard.report.table import Table, TableColumn


def test_page_escapes_titles_cells_and_notes() -> None:
    table = Table(
        columns=(TableColumn(heading="<script>"),), rows=(("<img onerror=x>",),), notes=("</p><b>",)
    )
    text = page("<title>", [html_table(table)])
    assert text.count("<script>") == 1  # the page's own
    assert "<img" not in text
    assert "<title>&lt;title&gt;</title>" in text


def test_states_have_their_colour() -> None:
    columns = (TableColumn(heading="run"), TableColumn(heading="state"))
    text = html_table(Table(columns=columns, rows=(("a", "failed"), ("failed: b", "done"))))
    assert '<td class="bad">failed</td>' in text
    assert '<td class="good">done</td>' in text
    assert "<td>failed: b</td>" in text  # a text that begins with a state is none
