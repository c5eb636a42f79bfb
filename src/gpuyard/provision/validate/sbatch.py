"""Validation of Slurm batch scripts: #SBATCH options and the format of their values."""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.document.tree import Document, Mapping, Scalar, SourceLocation
from gpuyard.errors import Finding, Severity, closest_match
from gpuyard.provision.artefact_document import ArtefactDocument

TABLE = Path(__file__).parent.parent / "schemas" / "data" / "sbatch.toml"
HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
FORMATS = {
    "count": (r"\d+(-\d+)?", "an integer"),
    "nodes": (r"\d+[km]?(-\d+[km]?)?(:\d+)?", "a number of nodes, e.g. 4 or 4-8"),
    "time": (
        r"\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}|INFINITE|UNLIMITED",
        "minutes, H:M:S or D-H:M:S",
    ),
    "size": (r"\d+[KMGT]?B?", "megabytes, or a number with K, M, G or T"),
    "gpus": (r"([\w.-]+:)?\d+(,([\w.-]+:)?\d+)*", "a number of GPUs, e.g. 8 or h200:8"),
    "gres": (
        r"(gres:)?[\w/.-]+(:[\w.-]+)*(,[\w/.-]+(:[\w.-]+)*)*|NONE",
        "e.g. gpu:8 or gpu:h200:8",
    ),
    "switches": (r"\d+(@[\d:-]+)?", "a number of switches, e.g. 1 or 1@01:00:00"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchOption:
    """One #SBATCH option: its long name (as typed if it is unknown), value and line."""

    name: str
    value: str | None
    line: int
    is_read: bool  # sbatch stops reading options at the first command


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@functools.cache
def _value_formats() -> dict[str, str]:
    table = _table()
    return {**table["options"], **table["since"], **table["plugins"]}


def read_options(text: str) -> tuple[SbatchOption, ...]:
    """Return the #SBATCH options of a script in order."""
    options: list[SbatchOption] = []
    is_read = True
    heredoc_end = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if heredoc_end:  # the text of another file
            if line.strip() == heredoc_end:
                heredoc_end = ""
            continue
        if match := HEREDOC.search(line):
            heredoc_end = match.group(1)
        if line.startswith("#SBATCH"):
            options += _options_of_line(line.removeprefix("#SBATCH"), number, is_read)
        elif line.strip() and not line.lstrip().startswith("#"):
            is_read = False
    return tuple(options)


def _options_of_line(text: str, line: int, is_read: bool) -> Iterator[SbatchOption]:
    # sbatch accepts quotes and stops at a comment.
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            letter = name[:1]
            name = _table()["short"].get(letter, letter)
            equals = word[2:]
            value = word[2:].removeprefix("=")
        takes_value = _value_formats().get(name, "text") not in ("flag", "optional")
        if not equals and takes_value and words and not words[0].startswith("-"):
            equals = "="
            value = words.pop(0)
        yield SbatchOption(name=name, value=value if equals else None, line=line, is_read=is_read)


def script_document(file: str, text: str) -> ArtefactDocument:
    """Return a script as a document whose body maps the options that sbatch reads to values."""
    options = {option.name: option for option in read_options(text) if option.is_read}
    locations = {
        name: SourceLocation(file=file, line=option.line, path=name)
        for name, option in options.items()
    }
    root = Mapping(
        location=SourceLocation(file=file, line=1, path=""),
        items=tuple(
            (name, Scalar(location=locations[name], text=name, value=option.value))
            for name, option in options.items()
        ),
        key_locations=tuple(locations.values()),
    )
    return ArtefactDocument(
        file=file,
        number=1,
        kind="sbatch",
        type="sbatch",
        body={
            name: True if option.value is None else option.value for name, option in options.items()
        },
        source=Document(file=file, root=root),
        text=text,
    )


def sbatch_findings(document: ArtefactDocument) -> Iterator[Finding]:
    """Yield what is wrong with the options of a script."""
    if not document.text.startswith("#!"):
        what = "sbatch rejects a script without #! on its first line"
        yield _finding(document, 1, what, "start it with #!/bin/bash")
    for option in read_options(document.text):
        if not option.is_read:
            what = f"--{option.name} is ignored because it comes after the first command"
            yield _finding(document, option.line, what, "move it above the first command")
        elif option.name not in _value_formats():
            yield _unknown_option(document, option)
        else:
            yield from _value_findings(document, option)


def _unknown_option(document: ArtefactDocument, option: SbatchOption) -> Finding:
    what = f'sbatch has no option "--{option.name}"'
    if match := closest_match(option.name, _value_formats()):
        return _finding(document, option.line, what, f"did you mean --{match}?")
    fix = "remove it, unless a SPANK plug-in of your cluster adds it"
    return _finding(document, option.line, what, fix, "warning")


def _value_findings(document: ArtefactDocument, option: SbatchOption) -> Iterator[Finding]:
    value_format = _value_formats()[option.name]
    flag = f"--{option.name}"
    value = option.value
    if value_format == "flag" and value:
        yield _finding(document, option.line, f"{flag} takes no value", "remove the value")
    if value_format in ("flag", "optional"):
        return
    if not value:
        yield _finding(document, option.line, f"{flag} has no value", f"write {flag}=...")
    elif re.search(r"\$\{?\w|\$\(", value):
        what = f"{flag}={value}: sbatch does not expand variables in #SBATCH lines"
        fix = f"write the value, or pass it as `sbatch {flag}=... FILE`"
        yield _finding(document, option.line, what, fix)
    elif value_format in FORMATS:
        pattern, words = FORMATS[value_format]
        if not re.fullmatch(pattern, value, re.IGNORECASE):
            what = f'{flag}: "{value}" is not {words}'
            yield _finding(document, option.line, what, "write it in that format")


def _finding(
    document: ArtefactDocument, line: int, what: str, fix: str, severity: Severity = "error"
) -> Finding:
    where = f"{document.file}:{line}"
    return Finding(rule="sbatch", severity=severity, where=where, what=what, fix=fix)
