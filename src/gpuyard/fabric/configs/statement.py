"""Statements of a configuration: every line of every format, as words from the root."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement with its full path, such as `interfaces et-0/0/0 mtu 9216`."""

    words: tuple[str, ...]
    file: str
    line: Annotated[int, Doc("0 in JSON, where the words name the place")]

    def __str__(self) -> str:
        return " ".join(f'"{word}"' if " " in word or not word else word for word in self.words)

    @property
    def where(self) -> str:
        if not self.line:
            return f"{self.file}: {'|'.join(self.words[:2])}"
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The statements of a device after matching: none is dropped.

    `values` has what the patterns captured, `other` the statements that are known and do not
    belong to the model of a device, `unread` those that no pattern describes.
    """

    values: Mapping[str, Sequence[tuple[str, ...]]]
    other: tuple[Statement, ...]
    unread: tuple[Statement, ...]
    places: Annotated[
        Mapping[tuple[str, ...], str], Doc("file and line by pattern and first captured words")
    ]

    def pairs(self, key: str) -> dict[str, str]:
        """Return the captures of a pattern with two fields as a mapping; the last one wins."""
        return {one[0]: one[1] for one in self.values.get(key, ())}

    def lists(self, key: str) -> dict[str, list[str]]:
        """Return the captures of a pattern with two fields, every value by the first field."""
        result: dict[str, list[str]] = defaultdict(list)
        for one in self.values.get(key, ()):
            result[one[0]].append(one[1])
        return dict(result)

    def one(self, key: str) -> str | None:
        """Return the last capture of a pattern with one field."""
        captured = self.values.get(key)
        return captured[-1][0] if captured else None

    def has(self, key: str) -> bool:
        return key in self.values

    def firsts(self, key: str) -> tuple[str, ...]:
        """Return the first field of every capture, in order, without repetition."""
        return tuple(dict.fromkeys(one[0] for one in self.values.get(key, ())))


class _Node:
    """A node of the trie of patterns: literal words first, then a field, then the rest."""

    __slots__ = ("field_node", "key", "literals", "rest_key")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.field_node: _Node | None = None
        self.key: str | None = None  # of the pattern that ends here
        self.rest_key: str | None = None  # of a pattern that takes all further words


MAX_RANGE = 64  # of queues, priorities or DSCPs
OTHER = ""  # key of statements that are known and do not belong to the model


class Patterns:
    """Patterns of statements: `{name}` is one word, `{name*}` all further words (at least one).

    A literal word is preferred to a field, and a field to a rest, at each word from the left.
    """

    def __init__(self, modelled: Mapping[str, str | Sequence[str]], other: Iterable[str]) -> None:
        self._root = _Node()
        for key, patterns in modelled.items():
            for pattern in (patterns,) if isinstance(patterns, str) else patterns:
                self._add(pattern, key)
        for prefix in other:
            self._add(prefix, OTHER)  # the statement itself, and everything below it
            self._add(f"{prefix} {{rest*}}", OTHER)

    def _add(self, pattern: str, key: str) -> None:
        node = self._root
        for word in pattern.split():
            if word.startswith("{") and word.endswith("*}"):
                node.rest_key = key
                return
            if word.startswith("{"):
                node.field_node = node = node.field_node or _Node()
            else:
                node = node.literals.setdefault(word, _Node())
        node.key = key

    def match(self, words: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
        """Return the key and the captured words of the pattern that describes a statement."""
        return _match(self._root, words, 0)

    def read(self, statements: Iterable[Statement]) -> Readings:
        """Match every statement of a device."""
        values: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        other: list[Statement] = []
        unread: list[Statement] = []
        places: dict[tuple[str, ...], str] = {}
        for statement in statements:
            result = self.match(statement.words)
            if result is None:
                unread.append(statement)
            elif result[0] == OTHER:
                other.append(statement)
            else:
                key, captured = result
                values[key].append(captured)
                for count in (1, 2):
                    places.setdefault((key, *captured[:count]), statement.where)
        return Readings(
            values=dict(values), other=tuple(other), unread=tuple(unread), places=places
        )


def _match(node: _Node, words: Sequence[str], at: int) -> tuple[str, tuple[str, ...]] | None:
    if at == len(words):
        return None if node.key is None else (node.key, ())
    word = words[at]
    literal = node.literals.get(word)
    if literal is not None:
        result = _match(literal, words, at + 1)
        if result is not None:
            return result
    if node.field_node is not None:
        result = _match(node.field_node, words, at + 1)
        if result is not None:
            return result[0], (word, *result[1])
    return None if node.rest_key is None else (node.rest_key, (" ".join(words[at:]),))


def range_of(text: str) -> range:
    """Return the numbers of a range such as `3-4`, or of one number; ValueError if too many."""
    low, _, high = text.partition("-")
    numbers = range(int(low), int(high or low) + 1)
    if numbers.stop - numbers.start > MAX_RANGE:
        raise ValueError(f'"{text[:60]}" has more than {MAX_RANGE} numbers')
    return numbers
