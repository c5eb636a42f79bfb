"""A real browser, driven over a pipe by its own protocol: no driver, no port."""

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

PATIENCE_S = 60.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page in one browser; `said` gathers what went wrong on it."""

    def __init__(self, program: str, folder: Path) -> None:
        hears, self._to = _high(os.pipe())
        self._from, tells = _high(os.pipe())
        words = ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{tells}', "bash", program, *FLAGS, f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            words, pass_fds=(hears, tells), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(hears)
        os.close(tells)
        self._number, self._left, self._session, self.said = 0, b"", "", list[str]()

    def __enter__(self) -> Self:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for room in ("Page", "Runtime", "Log"):
                self.call(f"{room}.enable")
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
        """What a method of the protocol gives."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self._to, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            got = self._next()
            if got.get("id") == self._number:
                assert "error" not in got, got["error"]
                result: dict[str, Any] = got["result"]
                return result
            self._note(got)

    def value(self, expression: str) -> Any:
        """What an expression is on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression: str) -> Any:
        """What an expression is as soon as it is something."""
        end_s = time.monotonic() + PATIENCE_S
        while not (found := self.value(expression)):
            assert time.monotonic() < end_s, f"{expression} never came: {self.said}"
            time.sleep(0.1)
        return found

    def open(self, url: str) -> None:
        """Goes to a page and waits for it."""
        self.call("Page.navigate", url=url)
        self.until(f'location.href === "{url}" && document.readyState === "complete"')

    def press(self, key: str) -> None:
        """A key, down and up."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=_code(key), **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=_code(key))

    def _note(self, event: dict[str, Any]) -> None:
        """Keeps an event that tells of something wrong."""
        if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.said.append(json.dumps(event["params"])[:400])

    def _next(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._from], [], [], PATIENCE_S)
            piece = os.read(self._from, 1 << 20) if ready else b""
            assert piece, "the browser says nothing"
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        got: dict[str, Any] = json.loads(message)
        return got


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The ends of a pipe under numbers that the shell's redirections leave alone."""
    moved = fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 10), fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 10)
    for end in ends:
        os.close(end)
    return moved


def _code(key: str) -> int:
    """The number of a key."""
    return {"Tab": 9, "Enter": 13}.get(key) or ord(key)
