"""What a page may do when it is allowed to: promote a version; start, stop or resume a run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping

from gpuyard.app.planner import workspace_of_text
from gpuyard.app.runs import stop_run
from gpuyard.errors import InputError
from gpuyard.home import Home, write_atomic
from gpuyard.registry.names import read_reference
from gpuyard.registry.registry import Registry
from gpuyard.web.view import NotFoundError

ALIASES = ("champion", "challenger")


def _promote(home: Home, name: str, fields: Mapping[str, str]) -> str:
    version, alias = fields.get("version", ""), fields.get("alias", "")
    if alias not in ALIASES:
        raise InputError.one("promote", "no version or no alias", "choose both in the form")
    number = read_reference(f"{name}/{version}").version
    assert number is not None
    Registry(home=home).alias(name, alias, number)
    return f"/models/{name}"


def _stop(home: Home, name: str, _fields: Mapping[str, str]) -> str:
    stop_run(home, name)
    return f"/runs/{name}"


def _resume(home: Home, name: str, _fields: Mapping[str, str]) -> str:
    """Resume a run in a separate process that outlives the page."""
    words = [sys.executable, "-m", "gpuyard", "resume", name, "--home", str(home.path)]
    subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    return f"/runs/{name}"


def _start(home: Home, _name: str, fields: Mapping[str, str]) -> str:
    """Save a workload file in the state directory and run it in a separate process."""
    text = fields.get("text", "").replace("\r\n", "\n")
    workload = workspace_of_text(text, home).workload
    # A text without a name is named after its file.
    file = home.path.resolve() / "workloads" / f"{workload.name}.yaml"
    write_atomic(file, text)
    folder = home.path / "up" / workload.name
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "gpuyard", "up", str(file), "--home", str(home.path)]
    with (folder / "up.log").open("wb") as log:
        subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    return f"/plans/{workload.name}"


_WORD = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,127})"
ACTIONS: tuple[tuple[re.Pattern[str], Callable[[Home, str, Mapping[str, str]], str]], ...] = (
    (re.compile(r"/(?P<name>planner)/start"), _start),
    (re.compile(rf"/models/{_WORD}/promote"), _promote),
    (re.compile(rf"/runs/{_WORD}/stop"), _stop),
    (re.compile(rf"/runs/{_WORD}/resume"), _resume),
)


def act(home: Home, path: str, fields: Mapping[str, str]) -> str:
    """Does what the form asks; gives the address of the page that shows it."""
    for pattern, action in ACTIONS:
        if match := pattern.fullmatch(path):
            return action(home, match["name"], fields)
    raise NotFoundError
