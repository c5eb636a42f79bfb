"""JSON over HTTP for the engines that have an API: asked again with back-off while the server is busy or away."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuyard.document import Plain
from gpuyard.errors import RefusedError
from gpuyard.jobs.backoff import jittered_s

__all__ = ["Api", "HttpError"]

ANSWER_S = 30.0
FIRST_WAIT_S = 0.5
AGAIN = {408, 425, 429, 500, 502, 503, 504}
Refused = (urllib.error.URLError, http.client.HTTPException, OSError)  # what a server that is away looks like


class HttpError(Exception):
    """An answer that is not a success: its code and what the server said."""

    def __init__(self, code: int, said: str) -> None:
        self.code, self.said = code, said
        super().__init__(f"HTTP {code}: {said}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A server; `tries` is how often a question is asked."""

    base: str
    headers: tuple[tuple[str, str], ...] = ()
    context: ssl.SSLContext | None = None
    tries: int = 6
    rng: random.Random = field(default_factory=random.Random)

    def _open(self, method: str, path: str, body: Plain, wait_s: float | None) -> http.client.HTTPResponse:
        """The answer to one request, sent once."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        request.add_header("Accept", "application/json, */*")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in self.headers:
            request.add_header(name, value)
        # The engine's address is the user's own; a proxy for the internet does not lead there.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )
        answer: http.client.HTTPResponse = opener.open(request, timeout=wait_s)
        return answer

    def call(self, method: str, path: str, body: Plain = None) -> Plain:
        """The JSON answer; HttpError for a no, RefusedError when there is no answer at all."""
        with contextlib.closing(self._asked(method, path, body, ANSWER_S)) as answer:
            text = answer.read()
        try:
            found: Plain = json.loads(text) if text.strip() else None
        except ValueError as error:
            raise RefusedError(self.base + path, "the answer is not JSON", "check the address") from error
        return found

    def lines(self, path: str) -> Iterator[str]:
        """The lines of an answer as they come; the connection may stay open for as long as there are more."""
        with contextlib.closing(self._asked("GET", path, None, None)) as answer:
            for line in answer:
                yield line.decode(errors="replace").rstrip("\n")

    def _asked(self, method: str, path: str, body: Plain, wait_s: float | None) -> http.client.HTTPResponse:
        """The answer, asked for again while the server is busy or away."""
        for tries in range(1, self.tries + 1):
            last = tries == self.tries
            try:
                return self._open(method, path, body, wait_s)
            except urllib.error.HTTPError as error:
                with contextlib.closing(error):
                    said = error.read().decode(errors="replace")
                if error.code not in AGAIN or last:
                    raise HttpError(error.code, _message(said)) from error
            except Refused as error:
                if last:
                    reason = getattr(error, "reason", error)
                    raise RefusedError(self.base, f"no answer: {reason}", "check the address, or start it") from error
            time.sleep(jittered_s(FIRST_WAIT_S, tries, self.rng))
        raise AssertionError("not reached")


def _message(said: str) -> str:
    """What a server said, in a line: the message of a Kubernetes status, or the end of a traceback."""
    with contextlib.suppress(ValueError):
        tree = json.loads(said)
        if isinstance(tree, dict) and isinstance(tree.get("message"), str):
            return str(tree["message"])
    return " ".join(said.split())[-400:]
