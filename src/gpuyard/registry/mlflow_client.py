"""The few calls of MLflow's REST API that a mirror needs, with the standard library alone.

MLflow's own client weighs hundreds of megabytes; the API is plain JSON (mlflow.org, REST API, version 2.0).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
import typing
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuyard.document import Plain
from gpuyard.errors import InputError, RefusedError

__all__ = ["MlflowClient", "MlflowError", "connect_mlflow"]

TIMEOUT_S = 60.0
TRIES = 4
BUSY = frozenset({429, 502, 503, 504})
MOST_BYTES = 64 * 1024 * 1024  # of an answer in JSON
PROXY = "mlflow-artifacts:"


class MlflowError(RefusedError):
    """The server said no; `code` is MLflow's own word for why."""

    def __init__(self, where: str, what: str, fix: str, code: str) -> None:
        super().__init__(where, what, fix)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowClient:
    """One tracking server."""

    uri: str
    authorization: str = ""

    def get(self, call: str, **query: str) -> dict[str, Plain]:
        """The answer to a GET below /api/2.0."""
        return self._json("GET", f"{call}?{urllib.parse.urlencode(query)}" if query else call, None)

    def post(self, path: str, body: Mapping[str, Plain]) -> dict[str, Plain]:
        """The answer to a POST below /api/2.0."""
        return self._json("POST", path, json.dumps(body, allow_nan=False).encode())

    def search(self, path: str, key: str, body: Mapping[str, str], post: bool = False) -> Iterator[dict[str, Plain]]:
        """Every item of a list that comes in pages."""
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
        """Puts a file at a place of the artifact proxy, streaming it."""
        for last in _tries():
            with file.open("rb") as body:
                headers = {"Content-Length": str(file.stat().st_size), "Content-Type": "application/octet-stream"}
                if self._open("PUT", _artifact(location), body, headers, last) is not None:
                    return

    def files(self, location: str) -> Iterator[str]:
        """The paths of all files below a place of the artifact proxy."""
        base = _artifact("")
        root = _proxied(location)
        waiting = [""]
        while waiting:
            below = waiting.pop()
            listed = self.get(base, path=f"{root}/{below}" if below else root).get("files") or []
            assert isinstance(listed, list)
            for item in listed:
                assert isinstance(item, dict)
                name = PurePosixPath(str(item["path"])).name
                path = f"{below}/{name}" if below else name
                if item.get("is_dir"):
                    waiting.append(path)
                else:
                    yield path

    def download(self, location: str, file: Path) -> None:
        """Writes the file at a place of the artifact proxy to `file`."""
        file.parent.mkdir(parents=True, exist_ok=True)
        for last in _tries():
            answer = self._open("GET", _artifact(location), None, {}, last)
            if answer is not None:
                with answer, file.open("wb") as out:
                    shutil.copyfileobj(answer, out)
                return

    def _json(self, method: str, path: str, body: bytes | None) -> dict[str, Plain]:
        """An answer, decoded."""
        for last in _tries():
            answer = self._open(method, path, body, {"Content-Type": "application/json"}, last)
            if answer is not None:
                with answer:
                    text = answer.read(MOST_BYTES)
                try:
                    decoded = json.loads(text or b"{}")
                except ValueError as error:
                    raise RefusedError(self.uri, "did not answer in JSON", "name an MLflow tracking server") from error
                if not isinstance(decoded, dict):
                    raise RefusedError(self.uri, "did not answer as MLflow does", "name an MLflow tracking server")
                return decoded
        raise AssertionError

    def _open(self, method: str, path: str, body: typing.Any, headers: Mapping[str, str], last: bool) -> typing.Any:
        """The open answer; None when the server was busy and it is not the last try."""
        request = urllib.request.Request(f"{self.uri}/api/2.0/{path}", data=body, method=method, headers=dict(headers))
        if self.authorization:
            request.add_header("Authorization", self.authorization)
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in BUSY and not last:
                    return None
                raise _refusal(self.uri, path, error) from error
        except (OSError, ValueError) as error:
            if not last and not isinstance(error, ValueError):
                return None
            reason = getattr(error, "reason", error)
            raise RefusedError(
                self.uri, f"cannot be reached: {reason}", "start the server, or name another URI"
            ) from error


def connect_mlflow(uri: str) -> MlflowClient:
    """The server at an http or https address; user and password or token as MLflow's own variables name them."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError.one(f"--mlflow {uri}", "is not the address of a server", "write http://HOST:PORT")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    user, password = os.environ.get("MLFLOW_TRACKING_USERNAME", ""), os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    authorization = f"Bearer {token}" if token else ""
    if user and not token:
        authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    return MlflowClient(uri=uri.rstrip("/"), authorization=authorization)


def _tries() -> Iterator[bool]:
    """Several tries with growing pauses; True for the last."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(0.25 * 4 ** (attempt - 1))
        yield attempt == TRIES - 1


def _proxied(location: str) -> str:
    """The path of an artifact that the server hands out itself."""
    if not location.startswith(PROXY):
        raise RefusedError(
            location, "is not handed out by the tracking server", "start it with --serve-artifacts (its default)"
        )
    return urllib.parse.urlsplit(location).path.strip("/")


def _artifact(location: str) -> str:
    """The address of an artifact."""
    path = urllib.parse.quote(_proxied(location)) if location else ""
    return f"mlflow-artifacts/artifacts/{path}".rstrip("/")


def _refusal(uri: str, path: str, error: urllib.error.HTTPError) -> MlflowError:
    """What the server says is wrong."""
    text = error.read(100_000).decode("utf-8", "replace")
    try:
        said = json.loads(text)
        code, message = str(said.get("error_code", "")), str(said.get("message", ""))
    except (ValueError, AttributeError):
        code, message = "", " ".join(text.split())[:200]
    fix = "set MLFLOW_TRACKING_TOKEN or _USERNAME and _PASSWORD" if error.code in (401, 403) else "see the server's log"
    where = f"{uri}/{path.split('?')[0]}"
    return MlflowError(where, f"{error.code} {code} {message}".replace("  ", " ").strip(), fix, code)
