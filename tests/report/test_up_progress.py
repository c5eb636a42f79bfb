"""Progress of `gpuyard up` on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpuyard.report.up_progress import UpProgress


def _console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def test_progress_shows_finished_and_running_stages() -> None:
    console = _console(terminal=True)
    with UpProgress(console) as progress:
        progress.on_progress("check", "")
        progress.on_progress("check", "valid\nmore")
        progress.on_progress("measure", "")
        progress.on_status("memory\x1b[31m, 3 of 9")
        console.print(progress._shown())
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for words in ("check", "valid", "measure", "memory\\x1b[31m, 3 of 9"):
        assert words in text
    assert "more" not in text


def test_progress_is_silent_where_output_is_not_a_terminal() -> None:
    console = _console(terminal=False)
    with UpProgress(console) as progress:
        progress.on_progress("check", "")
        progress.on_progress("check", "valid")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


def test_progress_is_printed_line_by_line_where_lines_cannot_be_redrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = _console(terminal=True)
    with UpProgress(console) as progress:
        progress.on_progress("check", "")
        progress.on_progress("check", "valid")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[:2] == ["check …", "check: valid"]
