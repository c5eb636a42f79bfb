"""CEL text to a syntax tree: the part of the language that custom resources use in their rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "Access",
    "Call",
    "CelSyntaxError",
    "Choice",
    "Item",
    "ListOf",
    "Literal",
    "Name",
    "Node",
    "Operator",
    "parse",
]

_TOKEN = re.compile(
    r"\s*(?:(?P<float>\d+\.\d+)|(?P<int>\d+)u?|(?P<text>r?'(?:[^'\\]|\\.)*'|r?\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]]))"
)
# Loosest first; all are left-associative.
_BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))


class CelSyntaxError(ValueError):
    """The text is not CEL, or uses a part of it that is not understood here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A constant."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`of.field`."""

    of: Node
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """`of[index]`."""

    of: Node
    index: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`function(arguments)` or `of.function(arguments)`."""

    function: str
    of: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One or two operands and a sign."""

    sign: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`test ? yes : no`."""

    test: Node
    yes: Node
    no: Node


Node = Literal | Name | Access | Item | ListOf | Call | Operator | Choice


def parse(text: str) -> Node:
    """The syntax tree of a rule."""
    reader = _Reader(text)
    node = reader.choice()
    if reader.peek():
        raise CelSyntaxError(f"unexpected {reader.peek()!r} in {text!r}")
    return node


class _Reader:
    """Reads tokens by recursive descent."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if not found:
                raise CelSyntaxError(f"unexpected {text[position]!r} in {text!r}")
            kind = found.lastgroup or ""
            self.tokens.append((kind, found.group(kind)))
            position = found.end()

    def peek(self) -> str:
        """The next token's text, empty at the end."""
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> tuple[str, str]:
        """The next token, which must be `expected` where that is given."""
        if self.at >= len(self.tokens) or (expected and self.peek() != expected):
            raise CelSyntaxError(f"expected {expected or 'more'!r}, found {self.peek()!r}")
        self.at += 1
        return self.tokens[self.at - 1]

    def choice(self) -> Node:
        """A whole expression."""
        test = self.binary(0)
        if self.peek() != "?":
            return test
        self.take("?")
        yes = self.choice()
        self.take(":")
        return Choice(test=test, yes=yes, no=self.choice())

    def binary(self, level: int) -> Node:
        """Operators of this level and of those that bind tighter."""
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _BINARY[level]:
            sign = self.take()[1]
            left = Operator(sign=sign, operands=(left, self.binary(level + 1)))
        return left

    def unary(self) -> Node:
        """`!x`, `-x`, or what stands without a sign."""
        if self.peek() in ("!", "-"):
            return Operator(sign=self.take()[1], operands=(self.unary(),))
        return self.member(self.primary())

    def member(self, node: Node) -> Node:
        """What follows a value: fields, calls and items."""
        while self.peek() in (".", "["):
            if self.take()[1] == "[":
                node = Item(of=node, index=self.choice())
                self.take("]")
                continue
            name = self.take()[1]
            node = (
                Call(function=name, of=node, arguments=self.list_until(")", "("))
                if self.peek() == "("
                else Access(of=node, field=_unescaped(name))
            )
        return node

    def primary(self) -> Node:
        """A constant, a name, a call, a list or what stands in parentheses."""
        kind, text = self.take()
        if text == "(":
            inner = self.choice()
            self.take(")")
            return inner
        if text == "[":
            return ListOf(items=self.list_until("]"))
        if kind == "name":
            if text in ("true", "false", "null"):
                return Literal(value={"true": True, "false": False, "null": None}[text])
            return (
                Call(function=text, of=None, arguments=self.list_until(")", "("))
                if self.peek() == "("
                else Name(name=text)
            )
        if kind in ("int", "float"):
            return Literal(value=int(text) if kind == "int" else float(text))
        if kind == "text":
            return Literal(value=text[2:-1] if text[0] == "r" else re.sub(r"\\(.)", r"\1", text[1:-1]))
        raise CelSyntaxError(f"unexpected {text!r}")

    def list_until(self, end: str, start: str = "") -> tuple[Node, ...]:
        """Expressions between commas."""
        if start:
            self.take(start)
        items: list[Node] = []
        while self.peek() != end:
            items.append(self.choice())
            if self.peek() != end:
                self.take(",")
        self.take(end)
        return tuple(items)


def _unescaped(name: str) -> str:
    """A field whose name is a word of the language is written `__namespace__`."""
    return name[2:-2] if name.startswith("__") and name.endswith("__") and len(name) > 4 else name
