"""A minimal client of MLflow's REST API.

MLflow's own client is hundreds of megabytes; the API is plain JSON (mlflow.org, REST API 2.0).
"""

from __future__ import annotations

import base64
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError, InputError
from gpuyard.http import DEFAULT_RETRY, HttpClient, HttpError, HttpRetryPolicy, without_credentials

TIMEOUT_S = 60.0
PROXY = "mlflow-artifacts:"
ALREADY_EXISTS = "RESOURCE_ALREADY_EXISTS"
# MLflow's limits: parameters per log-batch call, characters of a parameter and of a tag.
MAX_PARAMS = 100
MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
LOGIN = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD"
# A repeated call creates a second object; all other calls are idempotent.
CREATE_CALLS = frozenset({"mlflow/runs/create", "mlflow/model-versions/create"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowClient:
    """A client of one tracking server."""

    uri: str
    authorization: str = ""
    timeout_s: float = TIMEOUT_S
    retry: HttpRetryPolicy = DEFAULT_RETRY

    @property
    def _http(self) -> HttpClient:
        return HttpClient(
            base=f"{self.uri}/api/2.0/",
            authorization=self.authorization,
            timeout_s=self.timeout_s,
            retry=self.retry,
            fix="start the server, or use another URI",
            status_fixes=((401, LOGIN), (403, LOGIN)),
        )

    def get(self, call: str, **query: str) -> dict[str, Plain]:
        """Return the response to a GET below /api/2.0."""
        return self._json("GET", f"{call}?{urllib.parse.urlencode(query)}" if query else call)

    def post(self, path: str, body: Mapping[str, Plain]) -> dict[str, Plain]:
        """Return the response to a POST below /api/2.0."""
        return self._json("POST", path, dict(body), path not in CREATE_CALLS)

    def search(
        self, path: str, key: str, body: Mapping[str, str], post: bool = False
    ) -> Iterator[dict[str, Plain]]:
        """Yield every item of a paginated list."""
        token = ""
        while True:
            query = dict(body) | ({"page_token": token} if token else {})
            if post:
                page = self.post(path, {"experiment_ids": [query.pop("experiment_id")], **query})
            else:
                page = self.get(path, **query)
            items = page.get(key) or []
            assert isinstance(items, list)
            yield from (item for item in items if isinstance(item, dict))
            token = str(page.get("next_page_token") or "")
            if not token:
                return

    def upload(self, location: str, file: Path) -> None:
        """Stream a file to a location of the artifact proxy."""
        self._http.send("PUT", _artifact(location), file)

    def files(self, location: str) -> Iterator[str]:
        """Yield the paths of all files below a location of the artifact proxy."""
        base = _artifact("")
        root = _proxied(location)
        folders = [""]
        while folders:
            folder = folders.pop()
            listed = self.get(base, path=f"{root}/{folder}" if folder else root).get("files") or []
            assert isinstance(listed, list)
            for item in listed:
                assert isinstance(item, dict)
                name = PurePosixPath(str(item["path"])).name
                path = f"{folder}/{name}" if folder else name
                if item.get("is_dir"):
                    folders.append(path)
                else:
                    yield path

    def download(self, location: str, file: Path) -> None:
        """Write the artifact at a location of the proxy to `file`."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._http.download(_artifact(location), file)

    def _json(
        self,
        method: str,
        path: str,
        body: Plain = None,
        is_idempotent: bool | None = None,
    ) -> dict[str, Plain]:
        tree = self._http.json(method, path, body, is_idempotent=is_idempotent) or {}
        if not isinstance(tree, dict):
            fix = "use the URI of an MLflow server"
            raise ExternalError(self.uri, "response is not from MLflow", fix)
        return tree


def error_code(error: HttpError) -> str:
    """Return MLflow's own code of an error, e.g. RESOURCE_ALREADY_EXISTS."""
    body = error.response.body
    return str(body.get("error_code", "")) if isinstance(body, dict) else ""


def experiment_id(client: MlflowClient, name: str) -> str:
    """Return the id of an experiment, which is created if there is none."""
    try:
        return str(client.post("mlflow/experiments/create", {"name": name})["experiment_id"])
    except HttpError as error:
        if error_code(error) != ALREADY_EXISTS:
            raise
    experiment = client.get("mlflow/experiments/get-by-name", experiment_name=name)["experiment"]
    assert isinstance(experiment, dict)
    return str(experiment["experiment_id"])


def connect_mlflow(uri: str) -> MlflowClient:
    """Return a client of the server at `uri`, with credentials from MLflow's own variables."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = without_credentials(uri)
        raise InputError.one(
            f"--mlflow {shown}", "is not a server address", "write http://HOST:PORT"
        )
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    user = os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    authorization = f"Bearer {token}" if token else ""
    if user and not token:
        authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    return MlflowClient(uri=uri.rstrip("/"), authorization=authorization)


def _proxied(location: str) -> str:
    if not location.startswith(PROXY):
        raise ExternalError(
            location,
            "is not served by the tracking server",
            "start the server with --serve-artifacts (the default)",
        )
    return urllib.parse.urlsplit(location).path.strip("/")


def _artifact(location: str) -> str:
    path = urllib.parse.quote(_proxied(location)) if location else ""
    return f"mlflow-artifacts/artifacts/{path}".rstrip("/")
