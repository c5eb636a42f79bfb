"""Indented command lines (FRR, EOS, NX-OS, shell) to statements with their full context."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gpuyard.errors import InputError
from gpuyard.fabric.configs.statement import Statement

# Lines that end a context; the indentation already says where it ends.
_ENDS = frozenset({"!", "exit", "end", "exit-vrf", "exit-address-family", "exit1", "#"})
# EOS ends a banner with EOF, NX-OS with the character that it starts with.
_BANNER = re.compile(r"banner (?:login|motd|exec)\s*(?P<mark>\S?)(?P<rest>.*)$")
_ASSIGNMENT = re.compile(r"(?P<name>[\w.]+) ?= ?(?P<value>.+)")
_LOOP = re.compile(r"for (?P<name>\w+) in (?P<values>.+); do\s*$")


def cli_statements(text: str, file: str) -> Iterator[Statement]:
    """Yield every command with the words of the contexts it is in; `interface X vrf Y` is split."""
    contexts: list[tuple[int, tuple[str, ...]]] = []
    banner_end = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.rstrip()
        if banner_end:
            if line == banner_end or (len(banner_end) == 1 and banner_end in line):
                banner_end = ""
            continue
        stripped = line.lstrip()
        if not stripped or stripped in _ENDS or stripped.startswith(("!", "#")):
            continue
        depth = len(line) - len(stripped)
        while contexts and contexts[-1][0] >= depth:
            contexts.pop()
        words = tuple(_words(stripped, file, number))
        parent = contexts[-1][1] if contexts else ()
        yield Statement(words=(*parent, *words), file=file, line=number)
        if banner := _BANNER.match(stripped):
            mark = banner["mark"]
            banner_end = "" if mark and mark in banner["rest"] else mark or "EOF"
        if len(words) == 4 and (words[0], words[2]) == ("interface", "vrf"):
            words = words[:2]
        contexts.append((depth, (*parent, *words)))


def _words(line: str, file: str, number: int) -> list[str]:
    if '"' not in line:
        return line.split()
    try:
        return shlex.split(line)
    except ValueError:
        raise InputError.one(
            f"{file}:{number}", "a quotation mark is not closed", "close it"
        ) from None


def shell_statements(text: str, file: str) -> Iterator[Statement]:
    """Yield the commands of a script of `ip` and `dcb`, with loops unrolled, and assignments."""
    loop: tuple[str, list[str]] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#") or line in ("set -e", "done"):
            loop = None if line == "done" else loop
            continue
        if match := _LOOP.match(line):
            loop = match["name"], match["values"].split()
            continue
        if match := _ASSIGNMENT.fullmatch(line):  # sysctl.conf, and FRR's list of daemons
            yield Statement(words=("set", match["name"], match["value"]), file=file, line=number)
            continue
        command = line.removesuffix("|| true").rstrip()
        for value in loop[1] if loop else [""]:
            text_now = command.replace(f"${loop[0]}", value) if loop else command
            yield Statement(words=tuple(_words(text_now, file, number)), file=file, line=number)
