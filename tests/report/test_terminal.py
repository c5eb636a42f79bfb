"""Terminal output: progress lines and tables."""

from __future__ import annotations

import pytest

from gpuyard.report.table import Table, TableColumn
from gpuyard.report.terminal import print_status, print_table, print_text, print_warning


def test_status_rewrites_its_line_only_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_status("short runs", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    print_status("storage")
    print_status("short runs", 1, 2)
    print_status("short runs", 2, 2)
    assert (
        capsys.readouterr().err == "storage\n\r\x1b[Kshort runs: 1 of 2\r\x1b[Kshort runs: 2 of 2\n"
    )


def test_piped_table_is_not_wrapped_and_shows_brackets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wide = "x" * 300
    table = Table(
        columns=(TableColumn(heading="name"), TableColumn(heading="[bold]size", numeric=True)),
        rows=(("[red]a[/red]", "1"), (wide, "22")),
        notes=("[i]2 rows",),
    )
    print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert any("[red]a[/red]" in line and line.rstrip().endswith(" 1") for line in lines)
    assert any(wide in line for line in lines)
    assert "[bold]size" in lines[1]
    assert lines[-1] == "[i]2 rows"


def test_control_characters_of_names_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = "a\x1b[2J\x1b]0;owned\ab"
    table = Table(
        columns=(TableColumn(heading=hostile),),
        rows=((hostile,),),
        title=hostile,
        notes=(hostile,),
    )
    print_table(table)
    print_text(hostile)
    print_warning(hostile)
    assert not set("\x1b\a") & set(capsys.readouterr().out)
