"""The request log: answered requests as JSON lines, a share of them, written once per second."""

from __future__ import annotations

import logging
import os
import random
import time
from pathlib import Path

import msgspec

from gpuyard.serving.response_writer import HEAD_LENGTH
from gpuyard.serving.spec import RequestLogSpec

log = logging.getLogger("gpuyard.serving")
MAX_PENDING_BYTES = 64_000_000  # of lines that could not be written yet; more are dropped


class RequestLog:
    """Collects the lines of one worker; all workers append to the same file."""

    def __init__(self, spec: RequestLogSpec) -> None:
        self._path = Path(spec.path)
        self._share = spec.share_ratio
        self._random = random.Random(os.getpid())
        self._lines: list[bytes] = []
        self._pending_bytes = 0

    def add(
        self,
        model: tuple[str, str],
        body: bytes,
        response: tuple[int, list[tuple[str, str]], bytes],
        latency_s: float,
    ) -> None:
        """Add a request with its answer, if it is one of the share."""
        if self._share < 1 and self._random.random() >= self._share:
            return
        status, headers, answer = response
        is_binary = any(name == HEAD_LENGTH for name, _ in headers)
        line = {
            "time_s": time.time(),
            "model": model[0],
            "version": model[1],
            "status": status,
            "latency_s": latency_s,
            "request": _json(body),
            "response": None if is_binary else _json(answer),
        }
        encoded = msgspec.json.encode(line) + b"\n"
        if self._pending_bytes + len(encoded) > MAX_PENDING_BYTES:
            return
        self._lines.append(encoded)
        self._pending_bytes += len(encoded)

    def flush(self) -> None:
        """Append the collected lines to the file; keep them if it cannot be written."""
        lines = self._lines
        if not lines:
            return
        try:
            with self._path.open("ab", buffering=0) as file:
                file.write(b"".join(lines))
        except OSError as error:
            log.error("%s: requests are not logged: %s", self._path, error.strerror)
            return
        del self._lines[: len(lines)]
        self._pending_bytes = 0


# On one line; None for binary tensors and for bodies that are no JSON.
def _json(body: bytes) -> msgspec.Raw | None:
    try:
        msgspec.json.decode(body)
        return msgspec.Raw(msgspec.json.format(body, indent=-1))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
