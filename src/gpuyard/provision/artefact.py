"""What a platform renders: files, as they would be written."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gpuyard.document import Plain

__all__ = ["Artefact", "request_artefact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """One file: its name below the folder that holds the deployment, and its text."""

    name: str
    text: str


def request_artefact(name: str, method: str, parameters: Plain, body: Plain) -> Artefact:
    """A Google request as a file: the method, the parameters of its address, and its body."""
    tree = {"method": method, "parameters": parameters, "body": body}
    return Artefact(name=name, text=json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
