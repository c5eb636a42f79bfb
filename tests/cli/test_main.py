"""The command line: help, exit codes, errors as text and as JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli.commands import COMMANDS, GROUPS
from gpuyard.cli.main import main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {command} " in text for command in COMMANDS)
    assert main([]) == 0
    assert capsys.readouterr().out == text


def test_help_of_a_command_is_also_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "fabric", "design"], ["fabric", "design", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
    first, second = capsys.readouterr().out.split("usage: ")[1:]
    assert first == second
    assert main(["help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line in GROUPS] == [*GROUPS]


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: gpuyard {command}")
    for subcommand in _subcommands(text):
        with pytest.raises(SystemExit):
            main([command, subcommand, "--help"])
        assert "--json" in capsys.readouterr().out, subcommand
    assert "--json" in text or _subcommands(text)


def _subcommands(text: str) -> list[str]:
    """Subcommands of a command, if it has any."""
    if "ACTION" not in text.splitlines()[0]:
        return []
    return re.findall(r"^    ([a-z]+)  ", text, re.MULTILINE)


def test_help_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("words", [["help", "plan"], ["-h", "plan"], ["--help", "plan"]])
def test_help_of_a_command_is_printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("usage: gpuyard plan")


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == main(["version"]) == 0
    assert capsys.readouterr().out.startswith("gpuyard 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["chekc"],
            'error: gpuyard: no command named "chekc"\n  fix: did you mean `gpuyard check`?\n',
        ),
        (
            ["--halp"],
            'error: gpuyard: no flag named "--halp"\n  fix: did you mean `gpuyard --help`?\n',
        ),
        (["xyz"], 'error: gpuyard: no command named "xyz"\n  fix: see `gpuyard --help`\n'),
        (
            ["catalog", "chips", "--wher", "a=b"],
            "error: gpuyard catalog: unrecognized arguments: --wher a=b\n  fix: did you mean --where?\n",
        ),
        (
            ["fabric", "design", "--gpu", "64"],
            "error: gpuyard fabric: unrecognized arguments: --gpu\n  fix: did you mean --gpus?\n",
        ),
        (
            ["catalog", "chips", "h101-sxm"],
            'error: catalog: no row named "h101-sxm" under chips\n  fix: use "h100-sxm"\n',
        ),
        (["check", "missing.yaml"], "error: missing.yaml: no such file\n  fix: check the path\n"),
        (
            ["init", "pretrain"],
            'error: gpuyard init: no task named "pretrain"\n  fix: did you mean "pretraining"?\n',
        ),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_fix(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", message)


def test_errors_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "chips", "h101-sxm", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["problems"][0]["fix"] == 'use "h100-sxm"'


@pytest.mark.slow
def test_closed_pipe_is_not_an_error() -> None:
    words = f"{sys.executable} -m gpuyard catalog machines | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_exits_with_4() -> None:
    words = f"{sys.executable} -m gpuyard catalog machines > /dev/full"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("error: output: No space left on device\n  fix: ")


def test_unwritable_path_exits_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a folder")
    target = tmp_path / "file" / "w.yaml"
    assert main(["init", "inference", str(target)]) == 4
    assert f"{target}: cannot be written" in capsys.readouterr().err
