"""Read-only requests to Google APIs, whose errors are answers too."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.provision.apply.api_errors import api_error_from
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.provision.apply.step_client import ApiError
from gpuyard.provision.preflight.check_row import CheckRow, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response: its tree, or the error of the server or the connection."""

    status: Annotated[int, Doc("HTTP status; 0: no response")]
    tree: dict[str, Plain] = field(default_factory=dict)
    error: str = ""
    fix: str = ""

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    def as_unknown(self, check: str, subject: str) -> CheckRow:
        """Return that the check could not be made, and why."""
        return unknown(check, subject, f"not readable: {self.error}", self.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudReader:
    """Sends GET requests, and POST requests of methods that only read."""

    client: GoogleClient

    def get(self, url: str) -> Reply:
        return self._send("GET", url, "")

    def query(self, url: str, body: Plain) -> Reply:
        """Send a POST that changes nothing."""
        return self._send("POST", url, json.dumps(body))

    def _send(self, method: str, url: str, body: str) -> Reply:
        try:
            response = self.client.send(method, url, body)
        except (ExternalError, ApiError) as error:
            return Reply(
                status=0, error=_first_line(error), fix="check the network, then try again"
            )
        if response.status >= 400:
            problem = api_error_from(response)
            return Reply(status=response.status, error=str(problem), fix=problem.fix)
        tree = response.body
        return Reply(status=response.status, tree=tree if isinstance(tree, dict) else {})


def _first_line(error: Exception) -> str:
    text = str(error).removeprefix("error: ")
    return text.splitlines()[0] if text else type(error).__name__
