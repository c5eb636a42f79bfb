"""Values as text, and tables that stay whole in a pipe."""

from __future__ import annotations

import datetime

import pytest

from gpuyard.report import Column, Table, print_table, show_value
from gpuyard.units import BYTES, Dimension


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (None, None, "–"), ("", None, "–"), ((), None, "–"), (True, None, "yes"), (False, None, "no"), (0, None, "0"),
        (80e9, BYTES, "80GB"), (("a", "b"), None, "a, b"), (1.5, None, "1.5"), (datetime.date(2026, 8, 21), None, "2026-08-21"),
    ],
)  # fmt: skip
def test_values_as_people_read_them(value: object, dimension: Dimension | None, text: str) -> None:
    assert show_value(value, dimension) == text


def test_a_piped_table_is_not_wrapped_and_names_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    wide = "x" * 300
    table = Table(
        columns=(Column(heading="name"), Column(heading="[bold]size", numeric=True)),
        rows=(("[red]a[/red]", "1"), (wide, "22")),
        notes=("[i]2 rows",),
    )
    print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert any("[red]a[/red]" in line and line.rstrip().endswith(" 1") for line in lines)
    assert any(wide in line for line in lines)
    assert "[bold]size" in lines[1]
    assert lines[-1] == "[i]2 rows"
