"""The command line without the packages of the extras: help, planning, and the extra to install."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gpuyard.errors import EXTRAS

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
MODULES = {  # of packages whose name is not the one they are imported under
    "google-auth": "google",
    "pillow": "PIL",
    "grpcio": "grpc",
    "protobuf": "google",
    "scikit-learn": "sklearn",
}
# Runs every command line of standard input without optional packages, in one process.
SCRIPT = """
import contextlib, importlib.abc, io, json, re, sys
from gpuyard.errors import EXTRAS

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from gpuyard.cli.main import main

def run(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as leaving:
            code = leaving.code
        except ModuleNotFoundError as missing:
            code = f"no module named {missing.name}"
    return code, out.getvalue(), err.getvalue()

results = []
for words in json.load(sys.stdin):
    code, out, err = run(words)
    results.append([words, code, err])
    if "ACTION" in out.partition(chr(10))[0]:
        for action in re.findall(r"^    ([a-z]+)  ", out, re.MULTILINE):
            code, _, err = run([words[0], action, "--help"])
            results.append([[words[0], action, "--help"], code, err])
json.dump(results, sys.__stdout__)
"""


def run_without_extras(lines: list[list[str]]) -> list[tuple[list[str], int, str]]:
    """Run command lines in one process that has the core dependencies alone."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(words, code, err) for words, code, err in json.loads(done.stdout)]


def test_every_optional_package_has_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, set[str]] = {}
    for extra, lines in project["optional-dependencies"].items():
        for line in lines if extra not in ("dev", "docs") else ():
            package = line.split(">")[0].split("[")[0]
            extras.setdefault(MODULES.get(package, package), set()).add(extra)
    assert set(EXTRAS) == set(extras)
    assert not {name: extra for name, extra in EXTRAS.items() if extra not in extras[name]}


def test_every_command_shows_its_help_without_extras() -> None:
    from gpuyard.cli.commands import COMMANDS

    results = run_without_extras([[command, "--help"] for command in COMMANDS])
    assert len(results) > 45
    assert not [(words, code) for words, code, _ in results if code != 0]


@pytest.mark.parametrize(
    "words",
    [
        ["check", str(EXAMPLES / "quickstart" / "workload.yaml")],
        ["data", "show", "table.csv"],
        ["data", "profile", "sklearn:iris"],
        ["evaluate", str(EXAMPLES / "quickstart" / "workload.yaml")],
        ["measure"],
        ["run", str(EXAMPLES / "quickstart" / "workload.yaml")],
        ["select", str(EXAMPLES / "quickstart" / "workload.yaml")],
        ["up", str(EXAMPLES / "quickstart" / "workload.yaml")],
    ],
    ids=lambda words: " ".join(words[:2]).split("/")[0],
)
def test_command_that_needs_an_extra_names_it(words: list[str], tmp_path: Path) -> None:
    if words[0] in ("evaluate", "measure", "run", "select", "up"):
        words = [*words, "--home", str(tmp_path)]
    ((_, code, text),) = run_without_extras([words])
    assert code == 4
    assert "is not installed\n  fix: pip install 'gpuyard[run]'" in text
    assert text.count("\n") == 2


def test_ui_starts_without_extras(tmp_path: Path) -> None:
    words = ["ui", "--home", str(tmp_path), "--port", "99999999"]  # no port, so it ends at once
    ((_, code, text),) = run_without_extras([words])
    assert (code, "cannot be listened on" in text) == (4, True)


def test_planned_workload_needs_no_extra(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text((EXAMPLES / "pretrain-70b" / "workload.yaml").read_text(encoding="utf-8"))
    results = run_without_extras(
        [["check", str(file)], ["up", str(file), "--dry-run"], ["up", str(file)]]
    )
    assert [code for _, code, _ in results] == [0, 0, 0]
