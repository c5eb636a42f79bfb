"""JSON Schema as a grammar over characters, so that a model can only generate valid JSON.

Idea: the schema becomes symbols (literals, character classes, sequences, choices, repetitions). A
state is a set of stacks of symbols that remain to be matched; a character advances every stack
whose top accepts it (a pushdown automaton, simulated on all branches). Invariant: a state without
stacks accepts nothing more; an empty stack means that the text so far is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuyard.serving.request_errors import RequestError

MAX_DEPTH = 64  # of a schema, and of nested values without one
MAX_REPEAT = 4096  # of minItems, maxItems, minLength, maxLength
_KEYWORDS = frozenset(
    (
        *("type", "enum", "const", "properties", "required", "additionalProperties", "items"),
        *("minItems", "maxItems", "minLength", "maxLength", "anyOf", "oneOf", "allOf"),
        *("$ref", "$defs", "definitions", "title", "description", "default", "examples"),
        *("$schema", "$id"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chars:
    """One character of a set, or one that is not in it."""

    allowed: frozenset[str]
    negated: bool = False

    def takes(self, character: str) -> bool:
        return (character in self.allowed) != self.negated


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sequence:
    parts: tuple[_Symbol, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    options: tuple[_Symbol, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Repeat:
    """At least `low` and at most `high` times; None: any number of times."""

    part: _Symbol
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Named:
    """A rule by name, for schemas that refer to themselves."""

    name: str


_Symbol = _Chars | _Sequence | _Choice | _Repeat | _Named


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stack:
    """Symbols that remain to be matched, the next one first; equal stacks are one object."""

    top: _Symbol | None  # None: nothing remains, the text is complete
    rest: _Stack | None


_DONE = _Stack(top=None, rest=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarState:
    """The ways in which a text may continue."""

    stacks: frozenset[_Stack]

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a whole value."""
        return _DONE in self.stacks

    @property
    def is_final(self) -> bool:
        """Whether the text is a whole value that cannot be continued."""
        return self.stacks == {_DONE}


class Grammar:
    """The grammar of a JSON Schema."""

    def __init__(self, schema: object) -> None:
        self._rules: dict[str, _Symbol] = {}
        self._stacks: dict[tuple[_Symbol, _Stack], _Stack] = {}
        self._repeats: dict[tuple[_Symbol, int, int | None], _Repeat] = {}
        self._schema = schema
        self.start = self._closed([self._push(self._value(schema, 0), _DONE)])

    def advance(self, state: GrammarState, text: str) -> GrammarState | None:
        """Return the state after some more text; None if the text is not allowed."""
        for character in text:
            after = [
                stack.rest
                for stack in state.stacks
                if isinstance(stack.top, _Chars) and stack.top.takes(character) and stack.rest
            ]
            if not after:
                return None
            state = self._closed(after)
        return state

    def _push(self, symbol: _Symbol, rest: _Stack) -> _Stack:
        return self._stacks.setdefault((symbol, rest), _Stack(top=symbol, rest=rest))

    def _closed(self, stacks: list[_Stack]) -> GrammarState:
        """Expand symbols until every stack is empty or begins with characters."""
        seen: set[_Stack] = set()
        expanded: set[_Stack] = set()
        while stacks:
            stack = stacks.pop()
            if stack in seen:
                continue
            seen.add(stack)
            symbol, rest = stack.top, stack.rest
            if rest is None or symbol is None or isinstance(symbol, _Chars):
                expanded.add(stack)
            elif isinstance(symbol, _Sequence):
                for part in reversed(symbol.parts):
                    rest = self._push(part, rest)
                stacks.append(rest)
            elif isinstance(symbol, _Choice):
                stacks += [self._push(option, rest) for option in symbol.options]
            elif isinstance(symbol, _Named):
                stacks.append(self._push(self._rules[symbol.name], rest))
            else:
                if symbol.low == 0:
                    stacks.append(rest)
                if symbol.high is None or symbol.high > 0:
                    stacks.append(self._push(symbol.part, self._push(self._less(symbol), rest)))
        return GrammarState(stacks=frozenset(expanded))

    def _less(self, symbol: _Repeat) -> _Repeat:
        """Return what remains of a repetition after one more time."""
        high = None if symbol.high is None else symbol.high - 1
        key = (symbol.part, max(0, symbol.low - 1), high)
        return self._repeats.setdefault(key, _Repeat(part=key[0], low=key[1], high=key[2]))

    def _value(self, schema: object, depth: int) -> _Symbol:
        if depth > MAX_DEPTH:
            raise _wrong(f"is nested deeper than {MAX_DEPTH}")
        if schema is True or schema == {}:
            return self._any()
        if not isinstance(schema, Mapping):
            raise _wrong(f"{json.dumps(schema)[:80]} is not a schema")
        unknown = sorted(set(schema) - _KEYWORDS)
        if unknown:
            raise _wrong(f"{', '.join(unknown[:5])} is not supported; leave it out")
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        if "const" in schema:
            return _literal(_dumped(schema["const"]))
        if "enum" in schema:
            return _Choice(
                options=tuple(_literal(_dumped(item)) for item in _listed(schema, "enum"))
            )
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                options = _listed(schema, key)
                if key == "allOf" and len(options) > 1:
                    raise _wrong("allOf of several schemas is not supported; join them")
                return _Choice(options=tuple(self._value(option, depth + 1) for option in options))
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list) and kind:
            return _Choice(options=tuple(self._typed(schema, item, depth) for item in kind))
        return self._any() if kind is None else self._typed(schema, kind, depth)

    def _typed(self, schema: Mapping[str, object], kind: object, depth: int) -> _Symbol:
        makers: dict[str, Callable[[], _Symbol]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, depth),
            "string": lambda: _string(*_bounds(schema, "minLength", "maxLength")),
            "integer": lambda: _INTEGER,
            "number": lambda: _NUMBER,
            "boolean": lambda: _Choice(options=(_literal("true"), _literal("false"))),
            "null": lambda: _literal("null"),
        }
        if not isinstance(kind, str) or kind not in makers:
            raise _wrong(f"{json.dumps(kind)[:80]} is no type of JSON")
        return makers[kind]()

    def _reference(self, target: object, depth: int) -> _Symbol:
        if not isinstance(target, str) or not target.startswith("#"):
            raise _wrong(f"$ref {json.dumps(target)[:80]} is not in the schema itself")
        if target not in self._rules:
            place: object = self._schema
            for key in target.removeprefix("#").strip("/").split("/") if target != "#" else ():
                place = place.get(key) if isinstance(place, Mapping) else None
            if place is None:
                raise _wrong(f"$ref {target[:80]} does not exist")
            self._rules[target] = _Sequence(parts=())  # while it is read: it may refer to itself
            self._rules[target] = self._value(place, depth + 1)
        return _Named(name=target)

    def _object(self, schema: Mapping[str, object], depth: int) -> _Symbol:
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            raise _wrong("properties are not an object")
        if not properties and schema.get("additionalProperties", True) is not False:
            extra = schema.get("additionalProperties", True)
            return self._map(self._value(extra, depth + 1))
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise _wrong("required is not a list of names")
        names = set(required)
        if not names <= set(properties):
            raise _wrong(f"{sorted(names - set(properties))[0]} is required and not described")
        # Properties come in the order of the schema; the comma is in front of all but the first.
        first: _Symbol = _literal("}")
        later: _Symbol = _literal("}")
        for name in reversed(properties):
            pair = _Sequence(
                parts=(_literal(_dumped(name)), _COLON, self._value(properties[name], depth + 1))
            )
            with_first = _Sequence(parts=(pair, later))
            with_later = _Sequence(parts=(_COMMA, pair, later))
            if name in names:
                first, later = with_first, with_later
            else:
                first = _Choice(options=(with_first, first))
                later = _Choice(options=(with_later, later))
        return _Sequence(parts=(_literal("{"), first))

    def _array(self, schema: Mapping[str, object], depth: int) -> _Symbol:
        low, high = _bounds(schema, "minItems", "maxItems")
        return _list(self._value(schema.get("items", True), depth + 1), low, high)

    def _map(self, value: _Symbol) -> _Symbol:
        pair = _Sequence(parts=(_string(0, None), _COLON, value))
        more = _Sequence(parts=(pair, _Repeat(part=_Sequence(parts=(_COMMA, pair)))))
        return _Sequence(parts=(_literal("{"), _Repeat(part=more, low=0, high=1), _literal("}")))

    def _any(self) -> _Symbol:
        if "any" not in self._rules:
            item = _Named(name="any")
            words = tuple(_literal(word) for word in ("true", "false", "null"))
            self._rules["any"] = _Choice(
                options=(self._map(item), _list(item, 0, None), _string(0, None), _NUMBER, *words)
            )
        return _Named(name="any")


def any_object() -> Grammar:
    """Return the grammar of any JSON object."""
    return Grammar({"type": "object"})


def _literal(text: str) -> _Symbol:
    return _Sequence(parts=tuple(_Chars(allowed=frozenset(character)) for character in text))


def _string(low: int, high: int | None) -> _Symbol:
    return _Sequence(parts=(_QUOTE, _Repeat(part=_CHARACTER, low=low, high=high), _QUOTE))


def _list(item: _Symbol, low: int, high: int | None) -> _Symbol:
    if high == 0:
        return _literal("[]")
    rest = _Repeat(
        part=_Sequence(parts=(_COMMA, item)),
        low=max(0, low - 1),
        high=None if high is None else high - 1,
    )
    items = _Repeat(part=_Sequence(parts=(item, rest)), low=min(low, 1), high=1)
    return _Sequence(parts=(_literal("["), items, _literal("]")))


def _chars(allowed: str) -> _Chars:
    return _Chars(allowed=frozenset(allowed))


def _in_order(*parts: _Symbol) -> _Symbol:
    return _Sequence(parts=parts)


def _one_of(*options: _Symbol) -> _Symbol:
    return _Choice(options=options)


def _optional(part: _Symbol) -> _Symbol:
    return _Repeat(part=part, low=0, high=1)


_DIGIT, _HEX = _chars("0123456789"), _chars("0123456789abcdefABCDEF")
_DIGITS = _Repeat(part=_DIGIT, low=0, high=17)  # a double holds no more
_WHOLE = _one_of(_chars("0"), _in_order(_chars("123456789"), _DIGITS))
_INTEGER = _in_order(_optional(_chars("-")), _WHOLE)
_FRACTION = _optional(_in_order(_chars("."), _DIGIT, _DIGITS))
_POWER = _in_order(_chars("eE"), _optional(_chars("+-")), _Repeat(part=_DIGIT, low=1, high=3))
_NUMBER = _in_order(_INTEGER, _FRACTION, _optional(_POWER))
_QUOTE = _chars('"')
_CONTROL = frozenset(chr(code) for code in range(32))
_UNICODE = _in_order(_chars("u"), _HEX, _HEX, _HEX, _HEX)
_ESCAPE = _in_order(_chars("\\"), _one_of(_chars('"\\/bfnrt'), _UNICODE))
_CHARACTER = _one_of(_Chars(allowed=frozenset('"\\') | _CONTROL, negated=True), _ESCAPE)
_COLON = _in_order(_chars(":"), _optional(_chars(" ")))
_COMMA = _in_order(_chars(","), _optional(_chars(" ")))


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _listed(schema: Mapping[str, object], key: str) -> list[object]:
    items = schema[key]
    if not isinstance(items, list) or not items:
        raise _wrong(f"{key} is not a list of values")
    return items


def _bounds(schema: Mapping[str, object], low: str, high: str) -> tuple[int, int | None]:
    least, most = schema.get(low, 0), schema.get(high)
    for key, value in ((low, least), (high, most)):
        if value is None and key == high:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_REPEAT:
            raise _wrong(f"{key} is not a number from 0 to {MAX_REPEAT}")
    assert isinstance(least, int)
    assert most is None or isinstance(most, int)
    if most is not None and most < least:
        raise _wrong(f"{high} is below {low}")
    return least, most


def _wrong(what: str) -> RequestError:
    return RequestError(400, f"response_format: the schema: {what}")
