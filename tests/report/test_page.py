"""HTML pages and tables."""

from __future__ import annotations

from gpuyard.report.page import html_table, page
from gpuyard.report.table import Table, TableColumn


def test_page_escapes_titles_cells_and_notes() -> None:
    table = Table(
        columns=(TableColumn(heading="<script>"),), rows=(("<img onerror=x>",),), notes=("</p><b>",)
    )
    text = page("<title>", [html_table(table)])
    assert "<script>" not in text
    assert "<img" not in text
    assert "<title>&lt;title&gt;</title>" in text
