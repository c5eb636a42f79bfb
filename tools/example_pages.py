"""Renews what commands print in the pages of examples: python tools/example_pages.py [docs/examples/NAME.md …].

Every console block that begins with `gpuyard plan` or, for planned machines, `gpuyard up` is run again in a temporary
state directory. Blocks of commands that train here or need a cluster stay as they are: their times are of one machine.
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
LOCAL = ("quickstart", "own-script-slurm")  # run here
HINT = "`--explain N` shows one"


def printed(command: str, home: str) -> str:
    """What a command prints, without blank lines and hints; state goes to `home`, and is told where users have it."""
    words = shlex.split(command)
    more = ["--home", home] if words[1] == "up" else []
    done = subprocess.run(
        [sys.executable, "-m", *words, *more], capture_output=True, text=True, check=False, cwd=ROOT
    )  # fmt: skip
    if done.returncode not in (0, 3):
        raise SystemExit(f"{command}: {done.stderr}")
    beside = f"{Path(words[2]).parent}/.gpuyard"
    lines = [line.rstrip().replace(home, beside) for line in done.stdout.splitlines()]
    kept = [line for line in lines if line and not line.startswith((HINT, "report: "))]
    return "\n".join(kept)


def renewed(page: Path) -> str:
    """The page with fresh blocks."""

    def block(match: re.Match[str]) -> str:
        """One block, run again."""
        with tempfile.TemporaryDirectory() as home:
            return f"```console\n$ {match[1]}\n{printed(match[1], home)}\n```"

    return re.sub(r"```console\n\$ (gpuyard (?:plan|up) [^\n]*)\n.*?```", block, page.read_text("utf-8"), flags=re.S)


def main() -> None:
    """Writes the pages anew."""
    for page in [Path(word) for word in sys.argv[1:]] or sorted(PAGES.glob("*.md")):
        if page.stem not in LOCAL:
            page.write_text(renewed(page), encoding="utf-8")


if __name__ == "__main__":
    main()
