"""`gpuyard ui`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import threading
from pathlib import Path
from typing import Protocol, cast

from gpuyard.cli.exits import EXIT_DONE
from gpuyard.cli.options import add_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.report import print_json, print_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard ui --home examples/quickstart/.gpuyard\n  gpuyard ui --allow-actions\n"
        "on any address but loopback the printed address holds a token"
    )
    parser.add_argument(
        "--home", type=Path, default=Path(".gpuyard"), metavar="PATH", help="state directory (.gpuyard)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8787, help="0 takes a free one (8787)")
    parser.add_argument(
        "--allow-actions", action="store_true", help="let the page promote models, stop and resume runs"
    )
    add_json(parser)


class _Site(Protocol):
    """The server."""

    url: str

    def serve_forever(self) -> None: ...
    def shutdown(self) -> None: ...
    def server_close(self) -> None: ...


class _Web(Protocol):
    """The room of the page; a skin beside this one, so it is loaded by name."""

    def open_site(self, home: Home, *, host: str, port: int, acts: bool) -> _Site: ...


def run(arguments: argparse.Namespace) -> int:
    """Serves the page until it is interrupted."""
    try:
        web = cast(_Web, importlib.import_module("gpuyard.web"))
    except ModuleNotFoundError as error:
        raise RefusedError("gpuyard ui", f"{error.name} is not installed", "pip install 'gpuyard[run]'") from error
    home = Home(path=arguments.home)
    if not home.path.is_dir():
        raise InputError.one(str(home.path), "there is no state directory", "name it with --home, or `gpuyard up FILE`")
    site = web.open_site(home, host=arguments.host, port=arguments.port, acts=arguments.allow_actions)
    may = "actions allowed" if arguments.allow_actions else "read-only"
    if arguments.json:
        print_json({"url": site.url, "home": str(home.path), "allow_actions": arguments.allow_actions})
    else:
        print_text(f"gpuyard ui: {site.url}\n{home.path}; {may}; Ctrl-C ends it")
    stopped = threading.Thread(target=site.shutdown)
    signal.signal(signal.SIGTERM, lambda *_: stopped.start())
    with contextlib.suppress(KeyboardInterrupt):
        site.serve_forever()
    site.server_close()
    return EXIT_DONE
