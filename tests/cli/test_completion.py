"""`gpuyard completion`."""

from __future__ import annotations

import subprocess

import pytest

from gpuyard.cli.commands import COMMANDS
from gpuyard.cli.completion import completions
from gpuyard.cli.main import main


def test_completions_list_every_command_subcommand_and_flag() -> None:
    table = completions()
    assert set(COMMANDS) < set(table[""].words)
    assert set(COMMANDS) < set(table)
    assert "design" in table["fabric"].words
    assert "--gpus" in table["fabric design"].flags
    assert "--explain" in table["plan"].flags
    assert table["completion"].words == ("bash", "zsh", "fish")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpuyard fab", "fabric"),
        ("gpuyard fabric des", "design"),
        ("gpuyard plan --exp", "--explain"),
        ("gpuyard up file.yaml --unt", "--until"),
    ],
)
def test_bash_completes(line: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    words = line.split()
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _gpuyard; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "--sort" in script if shell == "zsh" else "-l 'sort'" in script
