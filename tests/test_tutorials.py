"""The tutorials: every command of their text runs, in order, in a folder with what they wrote."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.cli.main import main

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
TUTORIALS = sorted(path.stem for path in FOLDER.glob("*.md"))
QUICK = ("ml-engineer", "network-engineer")


def commands(text: str) -> Iterator[str]:
    """The lines of the shell blocks, and the YAML blocks as files that the text names."""
    for kind, block in re.findall(r"```(sh|yaml)\n(.*?)```", text, re.DOTALL):
        if kind == "sh":
            yield from block.splitlines()
        else:
            name = re.findall(r"`([\w-]+\.yaml)`", text[: text.index(block)])[-1]
            Path(name).write_text(block, encoding="utf-8")


def run(line: str) -> None:
    """Run a command in this process, with its output in the file that it names."""
    command, _, target = line.partition(" > ")
    words = shlex.split(command)
    printed = io.StringIO()
    if words[0] == "sed":
        old, new = words[1].split("/")[1:3]
        printed.write(Path(words[2]).read_text(encoding="utf-8").replace(old, new))
    else:
        assert words[0] == "gpuyard", line
        with contextlib.redirect_stdout(printed):
            assert main(words[1:]) == 0, f"{line}\n{printed.getvalue()}"
    if target:
        Path(target).write_text(printed.getvalue(), encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TUTORIALS],
)
def test_tutorial_can_be_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lines = list(commands((FOLDER / f"{name}.md").read_text(encoding="utf-8")))
    assert len(lines) >= 5
    for line in lines:
        run(line)


def test_there_is_a_tutorial_per_role() -> None:
    roles = {"ml-engineer", "cluster-architect", "network-engineer", "sre-finops", "data-scientist"}
    assert set(TUTORIALS) == roles
