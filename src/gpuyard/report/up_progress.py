"""The stages of `gpuyard up` while they run, in place on a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpuyard.errors import printable
from gpuyard.units import DURATION, show

FRAMES_PER_S = 8


class UpProgress:
    """A line per stage: the running one with a spinner, its time and what it is doing.

    Nothing is printed where standard error is not a terminal, and nothing is left at the end: the
    table of stages follows on standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._done: list[tuple[str, float, str]] = []
        self._stage, self._status, self._start_s = "starting", "", time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._shown,
            console=self._console,
            refresh_per_second=FRAMES_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def on_progress(self, stage: str, message: str) -> None:
        """A stage begins, or ends with a message."""
        if message:
            self._done.append((stage, time.monotonic() - self._start_s, message))
            self._stage = ""
        else:
            self._stage, self._status, self._start_s = stage, "", time.monotonic()
        if self._console.is_dumb_terminal:  # lines cannot be redrawn
            self._console.print(_line(f"{stage}: {message}" if message else f"{stage} …"))

    def on_status(self, text: str) -> None:
        """What the running stage is doing."""
        self._status = text

    def _shown(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, min_width=9)  # the longest stage
        grid.add_column(width=2)
        grid.add_column(justify="right", min_width=7)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        for name, took_s, message in self._done:
            grid.add_row(name, Text("✓", style="green"), show(took_s, DURATION), _line(message))
        if self._stage:
            took = show(time.monotonic() - self._start_s, DURATION, 2)
            grid.add_row(Text(self._stage, style="bold"), self._spinner, took, _line(self._status))
        return Group(grid)


def _line(text: str) -> Text:
    return Text(printable(text.partition("\n")[0]))
