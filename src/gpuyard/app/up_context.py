"""The context and the table rows that the stages of `gpuyard up` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gpuyard.app.up_report import StageOutcome
from gpuyard.app.workspace import Workspace
from gpuyard.document.encode import dump_json, load_json_file
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import load_fabric, to_json
from gpuyard.home import Home, write_atomic
from gpuyard.workload.workload import Workload

T = TypeVar("T")
StageStatus = Callable[[str], None]


def _silent(_text: str) -> None:
    """Ignore the status."""


class StageValues:
    """Values that the stages of one start pass on, saved as they are made.

    A value made in this start is handed on as it is; one of an earlier start is read from its file,
    once. Stages therefore never compute again what another stage has computed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._values: dict[str, object] = {}

    def save(self, name: str, value: object) -> None:
        """Save a stage's value under a file name and keep it for the later stages."""
        text = to_json(value) if isinstance(value, Fabric) else dump_json(value)
        write_atomic(self.folder / name, text)
        self._values[name] = value

    def load(self, name: str, record: type[T]) -> T | None:
        """The value that a stage saved, in this start or an earlier one; None without one."""
        value = self._values.get(name)
        path = self.folder / name
        if value is None and path.exists():
            value = load_fabric(path) if record is Fabric else load_json_file(path, record)
            self._values[name] = value
        assert value is None or isinstance(value, record)
        return value

    def discard(self, name: str) -> None:
        """Remove a value that is out of date."""
        self._values.pop(name, None)
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpContext:
    """One workload, its state directory, and the values of its stages."""

    workspace: Workspace
    home: Home
    values: StageValues = field(compare=False)
    engine: str | None = None
    on_status: StageStatus = field(default=_silent, compare=False)  # what a stage is doing now

    @classmethod
    def of(
        cls, workspace: Workspace, engine: str | None, on_status: StageStatus = _silent
    ) -> UpContext:
        home = Home(path=workspace.home.path.resolve())
        values = StageValues(home.path / "up" / workspace.workload.name)
        return cls(
            workspace=workspace, home=home, values=values, engine=engine, on_status=on_status
        )

    @property
    def workload(self) -> Workload:
        return self.workspace.workload

    @property
    def path(self) -> Path:
        return self.workspace.path

    @property
    def folder(self) -> Path:
        """Folder of this workload in the state directory."""
        return self.values.folder

    def file(self, name: str) -> Path:
        return self.folder / name

    def advice(self, outcomes: Sequence[StageOutcome]) -> str:
        """The command to run next."""
        last = outcomes[-1]
        if last.state == "stopped":
            return last.what
        if last.name == "provision":
            if last.files:
                return f"read {self.file('deploy') / 'README.md'}: what to set before --apply"
            return f"gpuyard plan {self.path} --explain 1"
        if last.name == "compare":
            return "gpuyard ui"
        return f"gpuyard up {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpStage:
    """A row of the table of stages."""

    name: str
    does: str
    run: Callable[[UpContext], StageOutcome]
    makes: tuple[str, ...] = ()  # files of this workload's folder
    holds: Callable[[UpContext], bool] = lambda _: True  # whether its result is still valid

    def is_current(self, context: UpContext, earlier: StageOutcome) -> bool:
        """Whether the result of an earlier start can be used; a stopped stage is tried again."""
        exist = all(context.file(name).exists() for name in earlier.files)
        return earlier.state != "stopped" and exist and self.holds(context)

    def clear(self, context: UpContext) -> None:
        """Remove the results of an earlier start, which later stages would read."""
        for name in self.makes:
            context.values.discard(name)
