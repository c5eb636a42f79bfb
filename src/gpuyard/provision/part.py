"""One document of an artefact after it was recognised, and views of the places in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gpuyard.document import Document, Plain

__all__ = ["Kind", "Part", "View", "duration_s"]

Kind = Literal["kubernetes", "google", "blueprint", "sbatch", "record"]
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A Kubernetes object, the body of a Google request, a Toolkit blueprint, a batch script or a record of ours."""

    file: str
    number: int  # of the document in its file, from 1
    kind: Kind
    type: str  # "batch/v1 Job", "compute.v1 Instance", "blueprint", "sbatch"
    body: Plain
    document: Document | None = None  # tells lines
    prefix: str = ""  # the path of the body inside the document
    method: str = ""  # the Google method, where the file names it
    parameters: Plain = None  # the method's parameters, where the file gives them
    text: str = ""  # of a script or a record

    @property
    def root(self) -> View:
        """The whole body."""
        return View(part=self, value=self.body)

    @property
    def name(self) -> str:
        """What the object calls itself."""
        root = self.root
        return next(
            (
                view.text
                for view in (root.at("metadata", "name"), root["name"], root["displayName"], root["blueprint_name"])
                if view.text
            ),
            "",
        )

    def place(self, path: str) -> str:
        """File, line and path of a place in the body."""
        if self.document is None:
            return f"{self.file}: {path}" if path else self.file
        whole = f"{self.prefix}.{path}".strip(".") if path else self.prefix
        return str(self.document.place(whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A value and its path; a key that is absent gives a view of nothing, so that paths can be walked blindly."""

    part: Part
    value: Plain
    path: str = ""

    def __getitem__(self, key: str) -> View:
        child = self.value.get(key) if isinstance(self.value, dict) else None
        return View(part=self.part, value=child, path=f"{self.path}.{key}" if self.path else key)

    def at(self, *keys: str) -> View:
        """The view below these keys."""
        view = self
        for key in keys:
            view = view[key]
        return view

    @property
    def where(self) -> str:
        """File, line and path."""
        return self.part.place(self.path)

    @property
    def is_set(self) -> bool:
        """True where something stands."""
        return self.value is not None

    @property
    def is_true(self) -> bool:
        """True of the value true."""
        return self.value is True

    @property
    def text(self) -> str:
        """The text there, otherwise an empty one."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def number(self) -> float | None:
        """The number there, written as a number or as its digits."""
        if isinstance(self.value, bool):
            return None
        if isinstance(self.value, int | float):
            return float(self.value)
        digits = isinstance(self.value, str) and re.fullmatch(r"-?\d+(\.\d+)?", self.value)
        return float(self.text) if digits else None

    @property
    def items(self) -> tuple[View, ...]:
        """The items of a list."""
        values = self.value if isinstance(self.value, list) else []
        return tuple(
            View(part=self.part, value=value, path=f"{self.path}[{index}]") for index, value in enumerate(values)
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of a list."""
        return tuple(item.text for item in self.items if item.text)

    @property
    def pairs(self) -> tuple[tuple[str, View], ...]:
        """The keys of a mapping with the views below them."""
        keys = self.value if isinstance(self.value, dict) else {}
        return tuple((key, self[key]) for key in keys)


def duration_s(view: View) -> float | None:
    """The seconds of `3600s`, of {seconds: 3600}, or of a plain number."""
    if view["seconds"].is_set:
        return view["seconds"].number
    found = _DURATION.fullmatch(view.text)
    return float(found.group(1)) if found else view.number
