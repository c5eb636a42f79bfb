"""Google API requests as files, and the commands that send and undo them by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact, request_artefact
from gpuyard.provision.platform import DeployStep
from gpuyard.provision.shell_text import shell, url
from gpuyard.provision.validate.google import google_methods

CALL = "call.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An API request that creates one resource."""

    file: str
    what: str
    method: str
    parameters: dict[str, Plain]
    body: dict[str, Plain]
    resource: Annotated[str, Doc("its name below the URL of the request")]

    @property
    def url(self) -> str:
        """URL of the request, without query parameters."""
        api, method = google_methods()[self.method]
        values = {key: str(value) for key, value in self.parameters.items()}
        return api_root(api, values.get("locationsId", "")) + url(method.path, **values)

    @property
    def resource_url(self) -> str:
        """URL of the resource, without the verb of the request's URL (models:upload)."""
        return f"{re.sub(r':[a-zA-Z]+$', '', self.url)}/{self.resource}"

    @property
    def query(self) -> str:
        _, method = google_methods()[self.method]
        pairs = [(key, value) for key, value in self.parameters.items() if key in method.query]
        return f"?{urlencode(pairs)}" if pairs else ""


def api_root(api: str, location: str) -> str:
    """Return the root URL of an API; Vertex AI has one per region."""
    service = api.split(".")[0]
    if service == "aiplatform" and location not in ("", "-", "global"):
        return f"https://{location}-{service}.googleapis.com/"
    return f"https://{service}.googleapis.com/"


def request_files(requests: Iterable[Request]) -> tuple[Artefact, ...]:
    """Return the requests as files, and the script that sends them."""
    files = tuple(
        request_artefact(item.file, item.method, item.parameters, item.body) for item in requests
    )
    script = (Path(__file__).parent / "data" / CALL).read_text(encoding="utf-8")
    return (*files, Artefact(name=CALL, text=script))


def request_steps(requests: Iterable[Request]) -> tuple[DeployStep, ...]:
    """Return the commands that send the requests in order, each with its undo command."""
    return tuple(
        DeployStep(
            what=item.what,
            command=shell(
                "bash {call} {file} {url}", call=CALL, file=item.file, url=item.url + item.query
            ),
            undo=shell("bash {call} --delete {url}", call=CALL, url=item.resource_url),
            request=item.file,
        )
        for item in requests
    )
