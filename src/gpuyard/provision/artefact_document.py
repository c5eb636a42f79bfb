"""One document of an artefact after its kind was recognised, and views of the values in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gpuyard.document.frozen_json import Plain
from gpuyard.document.tree import Document
from gpuyard.errors import Finding, Severity

Kind = Literal["kubernetes", "google", "blueprint", "sbatch", "record"]
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)s")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NAME_PATHS = (("metadata", "name"), ("name",), ("displayName",), ("blueprint_name",))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactDocument:
    """A Kubernetes object, Google request body, Toolkit blueprint, batch script or gpuyard file."""

    file: str
    number: int  # of the document in its file, from 1
    kind: Kind
    type: str  # "batch/v1 Job", "compute.v1 Instance", "blueprint", "sbatch"
    body: Plain
    source: Document | None = None  # the parsed file, for line numbers
    prefix: str = ""  # path of the body inside the file
    method: str = ""  # Google API method, if the file names it
    parameters: Plain = None  # parameters of the method, if the file has them
    text: str = ""  # of a script or a gpuyard file

    @property
    def root(self) -> ValueView:
        return ValueView(document=self, value=self.body)

    @property
    def request_parameters(self) -> ValueView:
        return ValueView(document=self, value=self.parameters)

    @property
    def name(self) -> str:
        """Name of the object, or an empty string."""
        names = (self.root.at(*path).text for path in _NAME_PATHS)
        return next((name for name in names if name), "")

    @property
    def kind_name(self) -> str:
        """Last word of the type: `Job` of `batch/v1 Job`."""
        return self.type.rsplit(" ", 1)[-1]

    def where(self, path: str) -> str:
        """Return file, line and path of a value in the body."""
        if self.source is None:
            return f"{self.file}: {path}" if path else self.file
        full_path = f"{self.prefix}.{path}".strip(".") if path else self.prefix
        return str(self.source.location(full_path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueView:
    """A value and its path; an absent key is a view of None, so a path needs no checks."""

    document: ArtefactDocument
    value: Plain
    path: str = ""

    def __getitem__(self, key: str) -> ValueView:
        child = self.value.get(key) if isinstance(self.value, dict) else None
        path = f"{self.path}.{key}" if self.path else key
        return ValueView(document=self.document, value=child, path=path)

    def at(self, *keys: str) -> ValueView:
        """Return the view below a sequence of keys."""
        view = self
        for key in keys:
            view = view[key]
        return view

    @property
    def where(self) -> str:
        """File, line and path of the value."""
        return self.document.where(self.path)

    @property
    def is_set(self) -> bool:
        """True unless the value is absent or null."""
        return self.value is not None

    @property
    def is_true(self) -> bool:
        """True only for the value `true`."""
        return self.value is True

    @property
    def text(self) -> str:
        """The value if it is a string, otherwise an empty string."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def last_segment(self) -> str:
        """Last segment of a resource path: `n1` of `projects/p/global/networks/n1`."""
        return self.text.rsplit("/", 1)[-1]

    @property
    def number(self) -> float | None:
        """The value as a number, also if it is a string of digits."""
        if isinstance(self.value, bool):
            return None
        if isinstance(self.value, int | float):
            return float(self.value)
        return float(self.text) if _NUMBER.fullmatch(self.text) else None

    @property
    def items(self) -> tuple[ValueView, ...]:
        values = self.value if isinstance(self.value, list) else []
        return tuple(
            ValueView(document=self.document, value=value, path=f"{self.path}[{index}]")
            for index, value in enumerate(values)
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Non-empty strings of a list."""
        return tuple(item.text for item in self.items if item.text)

    @property
    def pairs(self) -> tuple[tuple[str, ValueView], ...]:
        """Keys of a mapping with the views of their values."""
        keys = self.value if isinstance(self.value, dict) else {}
        return tuple((key, self[key]) for key in keys)

    def finding(
        self, what: str, fix: str = "", *, rule: str = "", severity: Severity = "error"
    ) -> Finding:
        """Return a finding about this value; an invariant fills in its own rule."""
        return Finding(rule=rule, severity=severity, where=self.where, what=what, fix=fix)

    def error(self, what: str, fix: str) -> Finding:
        return self.finding(what, fix)

    def warning(self, what: str, fix: str) -> Finding:
        return self.finding(what, fix, severity="warning")


def duration_s(view: ValueView) -> float | None:
    """Return the seconds of `3600s`, of {seconds: 3600}, or of a plain number."""
    if view["seconds"].is_set:
        return view["seconds"].number
    match = _DURATION.fullmatch(view.text)
    return float(match.group(1)) if match else view.number
