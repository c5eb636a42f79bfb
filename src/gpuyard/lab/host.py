"""This host's network: namespaces, veth pairs, addresses and rates, through iproute2."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from gpuyard.document import Plain
from gpuyard.errors import RefusedError

__all__ = ["FRR_DAEMONS", "asked", "batch", "inside", "is_root", "namespaces", "pids", "require", "run", "tool"]

FRR_DAEMONS = Path("/usr/lib/frr")  # where Debian puts zebra, bgpd and bfdd
SBIN = ("/usr/sbin", "/sbin")
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "sysctl": "procps",
    "vtysh": "frr",
}


def is_root() -> bool:
    """True when this process may make namespaces."""
    return os.geteuid() == 0


def tool(name: str) -> str:
    """The path of a program; daemons' folders are looked in too."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(SBIN))
    if found is None:
        package = _TOOLS.get(name, name)
        raise RefusedError("lab", f"{name} is not installed", f"apt-get install {package}")
    return found


def require() -> None:
    """RefusedError when this host cannot hold a lab: what is missing, and how to get it."""
    if not is_root():
        raise RefusedError("lab", "network namespaces need root", "run the same command with sudo")
    for name in _TOOLS:
        tool(name)
    for daemon in ("zebra", "bgpd", "bfdd"):
        if not (FRR_DAEMONS / daemon).exists():
            raise RefusedError("lab", f"{daemon} is not in {FRR_DAEMONS}", "apt-get install frr")


def run(words: Sequence[str], *, text: str = "", check: bool = True, timeout_s: float = 60.0) -> str:
    """What a command printed; RefusedError with its complaint when it fails."""
    command = [tool(words[0]), *words[1:]] if "/" not in words[0] else list(words)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise RefusedError(
            " ".join(words[:4]), f"no answer in {timeout_s:g} s", "try again on a quieter host"
        ) from error
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RefusedError(
            " ".join(words[:6]), said[-1] if said else f"exit {done.returncode}", "see `gpuyard lab down`"
        )
    return done.stdout


def batch(tool_name: str, lines: Iterable[str], namespace: str | None = None, *, force: bool = False) -> None:
    """Runs many `ip` or `tc` commands in one process; `force` goes on after one that fails."""
    text = "\n".join(lines)
    if not text:
        return
    where = ["-n", namespace] if namespace else []
    run([tool_name, *where, *(["-force"] if force else []), "-batch", "-"], text=text + "\n", check=not force)


def asked(words: Sequence[str]) -> Plain:
    """The JSON that a command printed."""
    text = run(words)
    return cast(Plain, json.loads(text)) if text.strip() else []


def inside(namespace: str, words: Sequence[str]) -> list[str]:
    """The command that runs `words` in a namespace; `nsenter` leaves /sys as it is, which `ip netns exec` does not."""
    return [tool("nsenter"), f"--net=/run/netns/{namespace}", *words]


def namespaces(prefix: str) -> tuple[str, ...]:
    """The namespaces whose names begin so."""
    folder = Path("/run/netns")
    return tuple(sorted(path.name for path in folder.glob(f"{prefix}*"))) if folder.is_dir() else ()


def pids(namespace: str) -> tuple[int, ...]:
    """The processes in a namespace."""
    return tuple(int(word) for word in run(["ip", "netns", "pids", namespace], check=False).split())
