"""Evaluates a CEL syntax tree over plain values; what cannot be evaluated is an error, as on the API server."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable

from gpuyard.document import Plain
from gpuyard.provision.validate.cel.parse import (
    Access,
    Call,
    Choice,
    Item,
    ListOf,
    Literal,
    Name,
    Node,
    Operator,
    parse,
)

__all__ = ["CelError", "holds"]

Scope = dict[str, Plain]
_MACROS = ("all", "exists", "exists_one", "filter", "map")
_ORDER: dict[str, Callable[[float | str, float | str], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SUMS: dict[str, Callable[[float, float], float]] = {"-": operator.sub, "*": operator.mul}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}
_parsed = functools.cache(parse)


class CelError(Exception):
    """The rule has no value here: a key that is absent, a type that does not fit."""


def holds(rule: str, value: Plain) -> bool:
    """Whether the rule is true of `self` = value; CelError where the rule has no value."""
    return _truth(_value(_parsed(rule), {"self": value}))


def _truth(value: Plain) -> bool:
    """The value, which must be true or false."""
    if not isinstance(value, bool):
        raise CelError("not true or false")
    return value


def _value(node: Node, scope: Scope) -> Plain:
    """The value of a syntax tree."""
    match node:
        case Literal(value=value):
            return value
        case Name(name=name):
            if name not in scope:
                raise CelError(f"no variable {name}")
            return scope[name]
        case Access(of=of, field=field):
            return _field(_value(of, scope), field)
        case Item(of=of, index=index):
            return _item(_value(of, scope), _value(index, scope))
        case ListOf(items=items):
            return [_value(item, scope) for item in items]
        case Choice(test=test, yes=yes, no=no):
            return _value(yes if _truth(_value(test, scope)) else no, scope)
        case Operator():
            return _operated(node, scope)
        case Call():
            return _called(node, scope)


def _field(of: Plain, field: str) -> Plain:
    """The value under a key that must be there."""
    if not isinstance(of, dict) or field not in of:
        raise CelError(f"no key {field}")
    return of[field]


def _item(of: Plain, index: Plain) -> Plain:
    """An item of a list or of a mapping."""
    if isinstance(of, dict) and isinstance(index, str):
        return _field(of, index)
    if isinstance(of, list) and isinstance(index, int) and 0 <= index < len(of):
        return of[index]
    raise CelError(f"no item {index}")


def _operated(node: Operator, scope: Scope) -> Plain:
    """The value of an operation."""
    if node.sign in ("&&", "||"):
        return _logical(node, scope)
    values = [_value(operand, scope) for operand in node.operands]
    if node.sign == "!":
        return not _truth(values[0])
    if len(values) == 1:
        return -_number(values[0])
    left, right = values
    if node.sign in ("==", "!="):
        return (left == right) == (node.sign == "==")
    if node.sign == "in":
        if not isinstance(right, list | dict):
            raise CelError("`in` needs a list or a mapping")
        return left in right
    if node.sign in _ORDER:
        if isinstance(left, str) and isinstance(right, str):
            return _ORDER[node.sign](left, right)
        return _ORDER[node.sign](_number(left), _number(right))
    if node.sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if node.sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    return _arithmetic(node.sign, _number(left), _number(right))


def _arithmetic(sign: str, left: float, right: float) -> Plain:
    """Whole numbers divide towards zero."""
    if sign == "+":
        return left + right
    if sign in _SUMS:
        return _SUMS[sign](left, right)
    if right == 0:
        raise CelError("division by zero")
    whole = int(left / right)
    return whole if sign == "/" else left - right * whole


def _number(value: Plain) -> float:
    """The value, which must be a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError("not a number")
    return value


def _logical(node: Operator, scope: Scope) -> bool:
    """And, or: an operand without a value does not matter where the other decides."""
    return _decided([(operand, scope) for operand in node.operands], node.sign == "||")


def _called(node: Call, scope: Scope) -> Plain:
    """The value of a call or of a macro."""
    if node.function == "has" and node.of is None:
        return _has(node.arguments[0], scope)
    if node.function in _MACROS and node.of is not None:
        return _macro(node, scope)
    subject = node.of or node.arguments[0]
    rest = node.arguments if node.of else node.arguments[1:]
    of, arguments = _value(subject, scope), [_value(argument, scope) for argument in rest]
    if node.function == "size" and isinstance(of, str | list | dict):
        return len(of)
    if node.function in _TEXTS and isinstance(of, str) and arguments and isinstance(arguments[0], str):
        return _TEXTS[node.function](of, arguments[0])
    if node.function == "string" and not isinstance(of, dict | list):
        return str(of)
    if node.function == "int" and isinstance(of, str | int | float):
        return int(of)
    raise CelError(f"{node.function}() does not take this")


def _has(argument: Node, scope: Scope) -> bool:
    """Whether a key is there; its parents must be."""
    if not isinstance(argument, Access):
        raise CelError("has() needs a field")
    of = _value(argument.of, scope)
    if not isinstance(of, dict):
        raise CelError(f"no key {argument.field}")
    return argument.field in of


def _macro(node: Call, scope: Scope) -> Plain:
    """all, exists, exists_one, filter and map over a list, or over the keys of a mapping."""
    assert node.of is not None
    of, (variable, body) = _value(node.of, scope), node.arguments
    if not isinstance(of, list | dict) or not isinstance(variable, Name):
        raise CelError(f"{node.function}() needs a list")
    scopes = [{**scope, variable.name: item} for item in of]
    if node.function == "map":
        return [_value(body, inner) for inner in scopes]
    if node.function in ("all", "exists"):
        return _any_or_all(body, scopes, decides=node.function == "exists")
    kept: list[Plain] = [inner[variable.name] for inner in scopes if _truth(_value(body, inner))]
    return kept if node.function == "filter" else len(kept) == 1


def _any_or_all(body: Node, scopes: list[Scope], decides: bool) -> bool:
    """As `||` or `&&` over the items."""
    return _decided([(body, scope) for scope in scopes], decides)


def _decided(terms: list[tuple[Node, Scope]], decides: bool) -> bool:
    """True or false as soon as a term decides; an error only where none does."""
    error: CelError | None = None
    for node, scope in terms:
        try:
            if _truth(_value(node, scope)) == decides:
                return decides
        except CelError as found:
            error = found
    if error is not None:
        raise error
    return not decides
