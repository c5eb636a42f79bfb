"""Requests to Google's APIs as files, and the commands that send them and take them back by hand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import Plain
from gpuyard.provision.artefact import Artefact, request_artefact
from gpuyard.provision.platform import Step
from gpuyard.provision.schemas import library

__all__ = ["CALL", "Request", "request_files", "request_steps"]

ROOTS = {
    "compute": ("compute.v1", "https://compute.googleapis.com/"),
    "container": ("container.v1", "https://container.googleapis.com/"),
    "tpu": ("tpu.v2", "https://tpu.googleapis.com/"),
    "storage": ("storage.v1", "https://storage.googleapis.com/"),
    "run": ("run.v2", "https://run.googleapis.com/"),
    "file": ("file.v1", "https://file.googleapis.com/"),
    "aiplatform": ("aiplatform.v1", "https://{locationsId}-aiplatform.googleapis.com/"),
    "hypercomputecluster": ("hypercomputecluster.v1", "https://hypercomputecluster.googleapis.com/"),
}
CALL = "call.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call that makes one resource: the file's name, why, the method, its parameters, and the body."""

    file: str
    what: str
    method: str
    parameters: dict[str, Plain]
    body: dict[str, Plain]
    resource: str  # its name below the address it is made at

    @property
    def address(self) -> str:
        """Where it is sent, without query parameters."""
        api, root = ROOTS[self.method.split(".")[0]]
        path = library(api).methods[self.method].path
        return (root + path).format_map({key: str(value) for key, value in self.parameters.items()})

    @property
    def made(self) -> str:
        """Where the resource is afterwards; a verb at the end of the address (models:upload) is not part of it."""
        return f"{re.sub(r':[a-zA-Z]+$', '', self.address)}/{self.resource}"

    @property
    def query(self) -> str:
        """The query parameters of the address."""
        api, _ = ROOTS[self.method.split(".")[0]]
        method = library(api).methods[self.method]
        asked = [f"{key}={value}" for key, value in self.parameters.items() if key in method.query]
        return f"?{'&'.join(asked)}" if asked else ""


def request_files(requests: Iterable[Request]) -> tuple[Artefact, ...]:
    """The requests as files, and the script that sends them."""
    made = tuple(request_artefact(item.file, item.method, item.parameters, item.body) for item in requests)
    script = Artefact(name=CALL, text=(Path(__file__).parent / "data" / CALL).read_text(encoding="utf-8"))
    return (*made, script)


def request_steps(requests: Iterable[Request]) -> tuple[Step, ...]:
    """The commands that send the requests in order, each with the one that takes it back."""
    return tuple(
        Step(
            what=item.what,
            command=f"bash {CALL} {item.file} {shlex.quote(item.address + item.query)}",
            undo=f"bash {CALL} --delete {shlex.quote(item.made)}",
        )
        for item in requests
    )
