"""Junos configuration groups: `apply-groups` adds the statements of a group to a level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpuyard.fabric.configs.statement import Statement

APPLY = "apply-groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The statements in effect, those that apply groups, and groups that are not defined."""

    statements: tuple[Statement, ...]
    applied: tuple[Statement, ...]
    undefined: tuple[str, ...]


def inherited(statements: Sequence[Statement]) -> Inherited:
    """Return the statements with those of applied groups; a device's own come last and win."""
    applied = tuple(one for one in statements if _is_applied(one))
    if not applied:
        return Inherited(statements=tuple(statements), applied=(), undefined=())
    own = [one for one in statements if not _is_applied(one)]
    groups: dict[str, list[Statement]] = {}
    for one in own:
        if one.words[0] == "groups" and len(one.words) > 2:
            groups.setdefault(one.words[1], []).append(one)
    paths = [one.words for one in own if one.words[0] != "groups"]
    result: dict[tuple[str, ...], Statement] = {}
    for apply in applied:
        level, name = apply.words[:-2], apply.words[-1]
        for one in groups.get(name, ()):
            for words in _in_effect(one.words[2:], level, paths):
                result.setdefault(words, Statement(words=words, file=one.file, line=one.line))
    return Inherited(
        statements=(*result.values(), *own),
        applied=applied,
        undefined=tuple(sorted({f"group {one.words[-1]}" for one in applied} - _names(groups))),
    )


def _is_applied(statement: Statement) -> bool:
    words = statement.words
    return len(words) > 1 and words[-2] == APPLY and words[0] != "groups"


def _names(groups: dict[str, list[Statement]]) -> set[str]:
    return {f"group {name}" for name in groups}


def _in_effect(
    words: tuple[str, ...], level: tuple[str, ...], paths: Sequence[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield a group's statement below a level: `<*>` takes each name that the device has there."""
    wild = max((at for at, word in enumerate(words) if word.startswith("<")), default=-1) + 1
    known = dict.fromkeys(path[:wild] for path in paths) if wild else {(): None}
    for start in known:
        if len(start) == wild and all(map(_fits, start, words)):
            whole = start + words[wild:]
            if whole[: len(level)] == level:
                yield whole


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("<"):
        return fnmatchcase(name, pattern[1:-1])
    return name == pattern
