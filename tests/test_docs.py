"""Pages that are generated say what the code says, and the commands of the first screen exist."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.cli.commands import COMMANDS, load_command, with_current_flags
from gpuyard.cli.main import main
from gpuyard.errors import InputError

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/workload.yaml"))


@pytest.mark.parametrize("name", ["reference.py", "workload_reference.py"])
def test_reference_pages_are_up_to_date(name: str) -> None:
    tool = [sys.executable, str(ROOT / "tools" / name), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_in_the_readme_and_the_docs_exists() -> None:
    names = set(COMMANDS)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    seen = set()
    for page in pages:
        for word in re.findall(
            r"(?:`|\$ |^```sh\n)gpuyard ([a-z]+)\b", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert word in names, f"{page.name}: gpuyard {word}"
            seen.add(word)
    assert seen >= names - {"schema"}


def test_every_documented_command_line_is_parsed() -> None:
    """Each line of a shell block that starts with gpuyard has arguments that the command knows."""
    wrong = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(
            r"```(?:sh|bash|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        )
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            command = re.sub(r"\s(#|>|2>|\||&&).*", "", line.removeprefix("$ "))
            if command.startswith("gpuyard ") and (problem := _parsing_problem(command)):
                wrong.append(f"{page.relative_to(ROOT)}: {command}: {problem}")
    assert wrong == []


@functools.cache
def _parser(name: str) -> argparse.ArgumentParser:
    return load_command(name, COMMANDS[name])[1]


def _parsing_problem(command: str) -> str:
    """Why the arguments of a command line are wrong; empty if they are right."""
    words = with_current_flags(shlex.split(command)[1:])
    if words[0] in ("help", "--help", "--version", "-V"):
        return ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _parser(words[0]).parse_args(words[1:])
    except InputError as error:
        return error.problems[0].what
    except SystemExit as leaving:
        return str(leaving.code or "")
    return ""


def test_links_between_pages_lead_somewhere() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_of_the_readme_are_absolute_and_lead_to_files() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 120
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert targets
    for target in targets:  # the page of a package index resolves no relative ones
        own = re.fullmatch(r"https://[\w.]+/gpuyard/gpuyard/(?:blob/)?main/([^#]+)", target)
        assert own is not None, target
        assert (ROOT / own[1]).is_file(), target


def test_the_readme_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("workload.yaml").write_text(re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)[0])
    (transcript,) = re.findall(r"```console\n(.*?)```", readme, re.DOTALL)
    command, _, shown = transcript.partition("\n")
    assert main(command.removeprefix("$ gpuyard ").split()) == 0
    printed = "".join(capsys.readouterr().out.splitlines(keepends=True)[: shown.count("\n")])
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        (ROOT / "README.md").write_text(readme.replace(shown, printed), encoding="utf-8")
    else:
        assert shown == printed, "GPUYARD_GOLDEN=write rewrites it"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if f": {page}\n" not in f"{navigation}\n"} == set()


def test_every_example_has_its_page_and_its_command() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(EXAMPLES) >= 10
    for name in EXAMPLES:
        page = ROOT / "docs" / "examples" / f"{name}.md"
        for text in (page, ROOT / "examples" / name / "README.md"):
            assert f"gpuyard up examples/{name}/workload.yaml" in text.read_text(
                encoding="utf-8"
            ), text
        assert f"examples/{name}.md" in navigation
        lines = (
            (ROOT / "examples" / name / "workload.yaml").read_text(encoding="utf-8").splitlines()
        )
        file = "\n".join(line for line in lines if not line.startswith("#"))
        assert f"```yaml\n{file}\n```" in page.read_text(encoding="utf-8"), (
            f"{page.name} shows another file"
        )


@pytest.mark.slow
def test_python_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.datasets import load_breast_cancer

    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"frame": load_breast_cancer(as_frame=True).frame}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    assert (tmp_path / "deploy" / "README.md").is_file()
    assert (tmp_path / "fabric.json").is_file()
