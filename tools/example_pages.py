"""Updates the command output in the example pages: python tools/example_pages.py [docs/examples/NAME.md …].

Every console block that begins with `gpuyard plan` or, for planned machines, `gpuyard up` is run again in a temporary
state directory. Blocks of commands that train on this machine or need a cluster stay unchanged: their times are of one
machine.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "examples"
LOCAL = ("quickstart", "own-script-slurm")  # they run on this machine
HINT = "use `--explain N`"


def output(command: str, home: str) -> str:
    """Return what a command prints, without blank lines and hints; show `home` where users have it."""
    words = shlex.split(command)
    more = ["--home", home] if words[1] == "up" else []
    done = subprocess.run(
        [sys.executable, "-m", *words, *more], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode not in (0, 3):
        raise SystemExit(f"{command}: {done.stderr}")
    shown_home = f"{Path(words[2]).parent}/.gpuyard"
    lines = [line.rstrip().replace(home, shown_home) for line in done.stdout.splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith((HINT, "report: ")))


def updated(page: Path) -> str:
    """Return the page with fresh blocks."""

    def block(match: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as home:
            return f"```console\n$ {match[1]}\n{output(match[1], home)}\n```"

    return re.sub(
        r"```console\n\$ (gpuyard (?:plan|up) [^\n]*)\n.*?```",
        block,
        page.read_text("utf-8"),
        flags=re.S,
    )


def main() -> None:
    """Write the pages with fresh blocks."""
    for page in [Path(word) for word in sys.argv[1:]] or sorted(PAGES.glob("*.md")):
        if page.stem not in LOCAL:
            page.write_text(updated(page), encoding="utf-8")


if __name__ == "__main__":
    main()
