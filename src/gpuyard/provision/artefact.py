"""Artefacts: the files that a platform renders."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """One file: its name inside the deployment folder, and its text."""

    name: str
    text: str


def request_artefact(name: str, method: str, parameters: Plain, body: Plain) -> Artefact:
    """Return a Google API request as a file: method, URL parameters and body."""
    tree = {"method": method, "parameters": parameters, "body": body}
    return Artefact(name=name, text=json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
