"""Pages that are generated say what the code says, and the commands of the first screen exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gpuyard.cli.commands import COMMANDS

ROOT = Path(__file__).parent.parent


def test_the_reference_pages_are_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_in_the_readme_and_the_docs_exists() -> None:
    names = {command.name for command in COMMANDS}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    seen = set()
    for page in pages:
        for word in re.findall(r"(?:`|\$ |^```sh\n)gpuyard ([a-z]+)\b", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert word in names, f"{page.name}: gpuyard {word}"
            seen.add(word)
    assert seen >= names - {"schema"}


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
