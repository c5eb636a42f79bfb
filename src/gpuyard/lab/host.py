"""Commands on this host: iproute2, FRR, and processes in network namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError

FRR_DAEMONS = Path("/usr/lib/frr")  # where Debian puts zebra, bgpd and bfdd
SBIN = ("/usr/sbin", "/sbin")
_PACKAGES = {  # Debian's, by tool
    "hostname": "hostname",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "ping": "iputils-ping",
    "sysctl": "procps",
    "tc": "iproute2",
    "unshare": "util-linux",
    "vtysh": "frr",
}
_LAB_TOOLS = tuple(name for name in _PACKAGES if name != "ping")  # a lab itself sends no pings


def is_root() -> bool:
    """Return whether this process may create namespaces."""
    return os.geteuid() == 0


def tool(name: str) -> str:
    """Return the path of a program, also from the sbin folders."""
    path = _path_of(name)
    if path is None:
        raise _missing(name)
    return path


def require() -> None:
    """Raise ExternalError if this host cannot run a lab, with what is missing."""
    if not is_root():
        raise ExternalError("lab", "network namespaces need root", "run the same command with sudo")
    missing = [name for name in _LAB_TOOLS if _path_of(name) is None]
    if missing:
        raise _missing(*missing)
    for daemon in ("zebra", "bgpd", "bfdd"):
        if not (FRR_DAEMONS / daemon).exists():
            raise ExternalError("lab", f"{daemon} is not in {FRR_DAEMONS}", "apt-get install frr")


def _path_of(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SBIN))


def _missing(*names: str) -> ExternalError:
    packages = sorted({_PACKAGES.get(name, name) for name in names})
    return ExternalError(
        "lab", f"not installed: {', '.join(names)}", f"apt-get install {' '.join(packages)}"
    )


def run(
    arguments: Sequence[str], *, text: str = "", check: bool = True, timeout_s: float = 60.0
) -> str:
    """Return the output of a command; raise ExternalError with its message if it fails."""
    program, *rest = arguments
    command = [program if "/" in program else tool(program), *rest]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise ExternalError(
            " ".join(arguments[:4]), f"no reply in {timeout_s:g} s", "try again on an idle host"
        ) from error
    if check and done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ExternalError(
            " ".join(arguments[:6]),
            lines[-1] if lines else f"exit {done.returncode}",
            "run `gpuyard lab down` and start again",
        )
    return done.stdout


def batch(
    tool_name: str, lines: Iterable[str], namespace: str | None = None, *, force: bool = False
) -> None:
    """Run many `ip` or `tc` commands in one process; `force` continues after a failure."""
    text = "\n".join(lines)
    if not text:
        return
    where = ["-n", namespace] if namespace else []
    run(
        [tool_name, *where, *(["-force"] if force else []), "-batch", "-"],
        text=text + "\n",
        check=not force,
    )


def run_json(arguments: Sequence[str]) -> Plain:
    """Return the parsed JSON output of a command."""
    text = run(arguments)
    return cast(Plain, json.loads(text)) if text.strip() else []


def inside(namespace: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs in a namespace; unlike `ip netns exec`, /sys stays mounted."""
    return [tool("nsenter"), f"--net=/run/netns/{namespace}", *arguments]


def on_device(namespace: str, words: Sequence[str]) -> list[str]:
    """Return the command on a device; vtysh finds the device's daemons by its namespace."""
    program, *rest = words
    if program == "vtysh" and not {"-N", "--pathspace"} & set(rest):
        rest = ["-N", namespace, *rest]
    return inside(namespace, [program, *rest])


def namespaces(prefix: str) -> tuple[str, ...]:
    """Return the namespaces with this prefix."""
    folder = Path("/run/netns")
    return tuple(sorted(path.name for path in folder.glob(f"{prefix}*"))) if folder.is_dir() else ()


def pids(namespace: str) -> tuple[int, ...]:
    """Return the processes in a namespace."""
    return tuple(map(int, run(["ip", "netns", "pids", namespace], check=False).split()))
