"""Junos text to statements: the curly form of `show configuration`, and `set` commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.errors import InputError
from gpuyard.fabric.configs.statement import Statement

# A quoted text, a mark, or a word; /* */ and everything after ## or # are comments.
_TOKEN = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<comment>/\*.*?\*/|\#[^\n]*)|(?P<mark>[{};\[\]])'
    r"|(?P<group>\([^()\n]*\))|(?P<word>[^\s{};\[\]\"]+)|(?P<newline>\n)",
    re.DOTALL,
)
_SET = re.compile(r"\s*(?:set|deactivate|activate|delete)\s")
INACTIVE = "inactive:"
Token = tuple[str, str, int]  # kind, text, line


def junos_statements(text: str, file: str) -> Iterator[Statement]:
    """Yield every statement; a list in brackets is one statement per element, as Junos sets it.

    A statement under `inactive:` or `deactivate` begins with that word.
    """
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[:1] not in "#/"]
    form = _set_form if lines and all(_SET.match(line) for line in lines) else _curly_form
    for statement in form(text, file):
        if set(statement.words) - {INACTIVE}:  # a lone semicolon or brace states nothing
            yield statement


def _tokens(text: str, file: str) -> Iterator[Token]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        if text[at : match.start()].strip():
            raise _error(file, line, f"unexpected {text[at : match.start()].strip()[:20]}")
        at = match.end()
        kind, value = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "newline":
            line += 1
            yield "newline", "", line
            continue
        if kind != "comment":
            yield kind, value, line
        line += match[0].count("\n")


def _set_form(text: str, file: str) -> Iterator[Statement]:
    inactive: list[tuple[str, ...]] = []
    statements: list[Statement] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words: list[str] = []
        options: list[str] | None = None
        for kind, value, _ in _tokens(line, file):
            if (kind, value) == ("mark", "["):
                options = []
            elif (kind, value) == ("mark", "]"):
                continue
            elif options is not None:
                options.append(value)
            else:
                words.append(value)
        if not words:
            continue
        command, *path = words
        if command == "deactivate" and path:
            inactive.append(tuple(path))
        elif command == "set":
            ends = [(one,) for one in options] if options is not None else [()]
            statements += [Statement(words=(*path, *end), file=file, line=number) for end in ends]
        else:
            statements.append(Statement(words=tuple(words), file=file, line=number))
    for statement in statements:
        off = any(statement.words[: len(path)] == path for path in inactive)
        words_now = (INACTIVE, *statement.words) if off else statement.words
        yield Statement(words=words_now, file=file, line=statement.line)


def _curly_form(text: str, file: str) -> Iterator[Statement]:
    path: list[tuple[str, ...]] = []
    is_empty: list[bool] = []  # whether a container has had no statement so far
    words: list[str] = []
    start = 1
    options: list[str] | None = None
    for kind, value, line in _tokens(text, file):
        if kind == "newline":
            continue
        if kind == "mark" and value == "[":
            options = []
        elif kind == "mark" and value == "]":
            pass
        elif kind != "mark":
            start = line if not words else start
            words.append(value) if options is None else options.append(value)
        elif value == "{":
            path.append(tuple(words))
            is_empty.append(True)
            words = []
        elif value == ";":
            if is_empty:
                is_empty[-1] = False
            yield from _leaf(path, words, options, file, start)
            words, options = [], None
        else:
            if not path:
                raise _error(file, line, "a closing brace without its opening one")
            if words:  # tools that hide secrets remove the semicolon with them
                is_empty[-1] = False
                yield from _leaf(path, words, options, file, start)
                words, options = [], None
            if is_empty.pop():
                yield _statement(path, (), file, line)
            path.pop()
            if is_empty:
                is_empty[-1] = False
    if path or words:
        raise _error(file, start, "the text ends inside a statement")


def _leaf(
    path: list[tuple[str, ...]], words: list[str], options: list[str] | None, file: str, line: int
) -> Iterator[Statement]:
    ends = [(one,) for one in options] if options is not None else [()]
    for end in ends:
        yield _statement(path, (*words, *end), file, line)


def _statement(
    path: list[tuple[str, ...]], words: tuple[str, ...], file: str, line: int
) -> Statement:
    whole = tuple(word for part in path for word in part) + words
    inactive = INACTIVE in whole
    plain = tuple(word for word in whole if word not in (INACTIVE, "replace:", "protect:"))
    return Statement(words=(INACTIVE, *plain) if inactive else plain, file=file, line=line)


def _error(file: str, line: int, what: str) -> InputError:
    return InputError.one(f"{file}:{line}", what, "save the whole output of `show configuration`")
