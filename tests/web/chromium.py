"""Chromium driven over a pipe with the DevTools protocol."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

TIMEOUT_S = 180.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page in one browser; `errors` collects console messages and exceptions."""

    def __init__(self, program: str, folder: Path) -> None:
        child_in, self._to = _high(os.pipe())
        self._from, child_out = _high(os.pipe())
        command = [
            "bash",
            "-c",
            f'exec "$@" 3<&{child_in} 4>&{child_out}',
            "bash",
            program,
            *FLAGS,
            f"--user-data-dir={folder}",
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(child_in, child_out),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_in)
        os.close(child_out)
        self._number, self._left, self._session, self.errors = 0, b"", "", list[str]()

    def __enter__(self) -> Self:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self._to,
            json.dumps(request | ({"sessionId": self._session} if self._session else {})).encode()
            + b"\0",
        )
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def value(self, expression: str) -> Any:
        """Evaluate an expression on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)[
            "result"
        ].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is truthy and return its value."""
        end_s = time.monotonic() + TIMEOUT_S
        while not (value := self.value(expression)):
            assert time.monotonic() < end_s, f"{expression} stayed false: {self.errors}"
            time.sleep(0.1)
        return value

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.until(f'location.href === "{url}" && document.readyState === "complete"')

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=key,
            code=key,
            windowsVirtualKeyCode=_code(key),
            **text,
        )
        self.call(
            "Input.dispatchKeyEvent",
            type="keyUp",
            key=key,
            code=key,
            windowsVirtualKeyCode=_code(key),
        )

    def _note(self, event: dict[str, Any]) -> None:
        """Record an event that reports an error."""
        if event.get("method") in (
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Page.javascriptDialogOpening",
        ):
            self.errors.append(json.dumps(event["params"])[:400])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._from], [], [], TIMEOUT_S)
            piece = os.read(self._from, 1 << 20) if ready else b""
            assert piece, "no message from the browser"
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        return event


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """Move the ends of a pipe to descriptors above those that the shell redirects."""
    moved = (
        fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 10),
        fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 10),
    )
    for end in ends:
        os.close(end)
    return moved


def _code(key: str) -> int:
    return {"Tab": 9, "Enter": 13}.get(key) or ord(key)
