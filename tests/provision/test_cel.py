"""CEL: values, macros, errors that do not matter, and every rule that is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.document import Plain
from gpuyard.provision.schemas import CelRule, Schema, library
from gpuyard.provision.validate.cel import CelError, CelSyntaxError, holds, parse


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("self.a == 1", {"a": 1}, True),
        ("self.a != 'x'", {"a": "y"}, True),
        ("has(self.a) && self.a > 1", {"a": 2}, True),
        ("has(self.a)", {}, False),
        ("!has(self.a) || self.a.size() >= 1", {"a": {}}, False),
        ("self.all(x, x in ['a', 'b'])", ["a", "b"], True),
        ("self.exists(x, x.n == 2)", [{"n": 1}, {"n": 2}], True),
        ("self.exists_one(x, x > 1)", [1, 2, 3], False),
        ("self.map(x, x + 1) == [2, 3]", [1, 2], True),
        ("size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0", ["a", "b", "a"], False),
        ("self[size(self) - 1].n == 'last'", [{"n": "x"}, {"n": "last"}], True),
        ("has(self.a) ? self.a == 1 : true", {}, True),
        ("self.a.matches('^[a-z]+$')", {"a": "abc"}, True),
        ("self.a.startsWith('ab') && self.a.endsWith('c') && self.a.contains('b')", {"a": "abc"}, True),
        ("[has(self.a), has(self.b)].filter(x, x == true).size() == 1", {"a": 0, "b": 0}, False),
        ("7 / 2 == 3 && 7 % 2 == 1 && -1 < 0", None, True),
        ("self.__namespace__ == 'x'", {"namespace": "x"}, True),
        ("string(self) == '3' && int('4') == 4", 3, True),
        ("'a' in self", {"a": 1}, True),
    ],
)
def test_values(rule: str, value: Plain, expected: bool) -> None:
    assert holds(rule, value) is expected


@pytest.mark.parametrize(
    "rule", ["self.b == 1", "self.a.size() == 1", "self.a < 'x'", "self[3] == 1", "!self.a", "1 / 0 == 1"]
)
def test_a_rule_without_a_value_is_an_error(rule: str) -> None:
    with pytest.raises(CelError):
        holds(rule, {"a": 1})


def test_an_error_does_not_matter_where_the_other_side_decides() -> None:
    assert holds("self.b == 1 || self.a == 1", {"a": 1})
    assert not holds("self.b == 1 && self.a == 2", {"a": 1})
    assert holds("self.exists(x, x.a == 1)", [{}, {"a": 1}])
    with pytest.raises(CelError):
        holds("self.b == 1 || self.a == 2", {"a": 1})


@pytest.mark.parametrize("rule", ["self.", "(1", "a ? b", "1 +", "@", "f(1 2)"])
def test_what_is_not_cel(rule: str) -> None:
    with pytest.raises(CelSyntaxError):
        parse(rule)


def shipped_rules() -> set[CelRule]:
    """Every rule of every custom resource."""
    books = library("crds")
    found: set[CelRule] = set()
    waiting = [books.schema(name) for name in books.raw]
    while waiting:
        schema = waiting.pop()
        found |= set(schema.rules)
        inner: list[Schema | None] = [*(schema.properties or {}).values(), schema.items, schema.additional]
        waiting += [child for child in inner if child is not None]
    return found


def test_every_shipped_rule_is_understood() -> None:
    rules = shipped_rules()
    assert len(rules) > 40
    for rule in rules:
        parse(rule.rule)
    assert not any("oldSelf" in rule.rule for rule in rules)  # rules of change need a cluster


def test_the_shipped_rules_agree_with_a_library() -> None:
    """Verdicts of the common-expression-language package (Rust) on values that keep, break or do not fit each rule."""
    table = json.loads((Path(__file__).parent / "cel_verdicts.json").read_text(encoding="utf-8"))
    assert {rule.rule for rule in shipped_rules()} == set(table["verdicts"])
    for rule, verdicts in table["verdicts"].items():
        for value, verdict in zip(table["values"], verdicts, strict=True):
            assert _verdict(rule, value) == verdict, (rule, value)
    every = "".join(table["verdicts"].values())
    assert min(every.count(letter) for letter in "tfe") > 200


def _verdict(rule: str, value: Plain) -> str:
    """True, false or an error, as one letter."""
    try:
        return "t" if holds(rule, value) else "f"
    except CelError:
        return "e"
