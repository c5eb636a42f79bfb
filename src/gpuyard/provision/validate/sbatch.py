"""Batch scripts: the #SBATCH options and the form of their values."""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document import Document, Mapping, Place, Scalar
from gpuyard.errors import nearest
from gpuyard.provision.finding import Finding, Severity
from gpuyard.provision.part import Part

__all__ = ["Option", "read_options", "sbatch_faults", "script_part"]

TABLE = Path(__file__).parent.parent / "schemas" / "data" / "sbatch.toml"
HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
FORMS = {
    "count": (r"\d+(-\d+)?", "a whole number"),
    "nodes": (r"\d+[km]?(-\d+[km]?)?(:\d+)?", "a number of nodes, e.g. 4 or 4-8"),
    "time": (r"\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}|INFINITE|UNLIMITED", "minutes, H:M:S or D-H:M:S"),
    "size": (r"\d+[KMGT]?B?", "megabytes, or a number with K, M, G or T"),
    "gpus": (r"([\w.-]+:)?\d+(,([\w.-]+:)?\d+)*", "a number of GPUs, e.g. 8 or h200:8"),
    "gres": (r"(gres:)?[\w/.-]+(:[\w.-]+)*(,[\w/.-]+(:[\w.-]+)*)*|NONE", "e.g. gpu:8 or gpu:h200:8"),
    "switches": (r"\d+(@[\d:-]+)?", "a number of switches, e.g. 1 or 1@01:00:00"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option as it is written: its long name (as typed where it is unknown), its value and its line."""

    name: str
    value: str | None
    line: int
    is_read: bool  # sbatch stops reading options at the first command


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """The options that sbatch knows."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@functools.cache
def _known() -> dict[str, str]:
    """Long names with the form of their values."""
    table = _table()
    return {**table["options"], **table["since"], **table["plugins"]}


def read_options(text: str) -> tuple[Option, ...]:
    """The #SBATCH options of a script in order."""
    found: list[Option] = []
    is_read, ending = True, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if ending:  # inside a here-document: the text of another file
            ending = "" if line.strip() == ending else ending
            continue
        if opened := HEREDOC.search(line):
            ending = opened.group(1)
        if line.startswith("#SBATCH"):
            found += _of_line(line.removeprefix("#SBATCH"), number, is_read)
        elif line.strip() and not line.lstrip().startswith("#"):
            is_read = False
    return tuple(found)


def _of_line(text: str, line: int, is_read: bool) -> Iterator[Option]:
    """The options of one line; sbatch takes quotes and stops at a comment."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            letter, rest = name[:1], word[2:]
            name, equals, value = _table()["short"].get(letter, letter), rest and "=", rest.removeprefix("=")
        form = _known().get(name, "text")
        if not equals and form not in ("flag", "optional") and words and not words[0].startswith("-"):
            equals, value = "=", words.pop(0)
        yield Option(name=name, value=value if equals else None, line=line, is_read=is_read)


def script_part(file: str, text: str) -> Part:
    """The script as a part; its body holds the options that sbatch reads, the last of each name."""
    options = {option.name: option for option in read_options(text) if option.is_read}
    places = {name: Place(file=file, line=option.line, path=f"--{name}") for name, option in options.items()}
    root = Mapping(
        place=Place(file=file, line=1, path=""),
        items=tuple(
            (name, Scalar(place=Place(file=file, line=places[name].line, path=name), text=name, value=option.value))
            for name, option in options.items()
        ),
        key_places=tuple(Place(file=file, line=places[name].line, path=name) for name in options),
    )
    body = {name: True if option.value is None else option.value for name, option in options.items()}
    document = Document(file=file, root=root)
    return Part(file=file, number=1, kind="sbatch", type="sbatch", body={**body}, document=document, text=text)


def sbatch_faults(part: Part) -> Iterator[Finding]:
    """What is wrong with the script's options."""
    if not part.text.startswith("#!"):
        yield _finding(part, 1, "sbatch refuses a script without #! on its first line", "start it with #!/bin/bash")
    for option in read_options(part.text):
        if not option.is_read:
            fix = "move it above the first command"
            yield _finding(part, option.line, f"--{option.name} is ignored: it stands after a command", fix)
        elif option.name not in _known():
            yield _unknown(part, option)
        else:
            yield from _value_faults(part, option)


def _unknown(part: Part, option: Option) -> Finding:
    """An option that sbatch does not have; a plug-in may add one."""
    meant = nearest(option.name, _known())
    what = f'sbatch has no option "--{option.name}"'
    if meant:
        return _finding(part, option.line, what, f"did you mean --{meant}?")
    return _finding(part, option.line, what, "remove it, unless a SPANK plug-in of your cluster adds it", "warning")


def _value_faults(part: Part, option: Option) -> Iterator[Finding]:
    """A value that is missing, not wanted or of the wrong form."""
    form = _known()[option.name]
    value = option.value
    if form == "flag" and value:
        yield _finding(part, option.line, f"--{option.name} takes no value", "remove the value")
    if form in ("flag", "optional"):
        return
    if not value:
        yield _finding(part, option.line, f"--{option.name} has no value", f"write --{option.name}=...")
    elif re.search(r"\$\{?\w|\$\(", value):
        what = f"--{option.name}={value}: sbatch does not expand variables in #SBATCH lines"
        yield _finding(part, option.line, what, f"write the value, or give it as `sbatch --{option.name}=... FILE`")
    elif form in FORMS and not re.fullmatch(FORMS[form][0], value, re.IGNORECASE):
        yield _finding(
            part, option.line, f'--{option.name}: "{value}" is not {FORMS[form][1]}', "write it in that form"
        )


def _finding(part: Part, line: int, what: str, fix: str, severity: Severity = "error") -> Finding:
    """A finding at a line of the script."""
    return Finding(rule="sbatch", severity=severity, where=f"{part.file}:{line}", what=what, fix=fix)
