"""CEL rules: corners of the language, what is not evaluated, and every shipped rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.schemas.library import Library, library
from gpuyard.provision.schemas.schema import Schema, parse_schema
from gpuyard.provision.validate import cel_rules
from gpuyard.provision.validate.cel_rules import evaluate_rule
from gpuyard.provision.validate.schema import schema_findings

SHIPPED_RULES = json.loads((Path(__file__).parent / "cel_shipped_rules.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 7.5 / 2.0 == 3.75", None),
        ("self + 1 == 9007199254740994 && self != 9007199254740992", 2**53 + 1),
        ("self == 1 && self < 1.5", 1.0),
        ("size(self) == 5 && self.startsWith('gr') && self.contains('ö')", "größe"),
        ("self.split('-') == ['a', '', 'b'] && self.matches('^a-+b$')", "a--b"),
        ("has(self.a) && !has(self.b) && 'a-b' in self && self['a-b'] == 1", {"a": 0, "a-b": 1}),
        ("self.all(x, x.n > 0) && self.exists_one(x, x.n == 2)", [{"n": 1}, {"n": 2}]),
        ("self.filter(x, x % 2 == 1).map(x, x * x) == [1, 9] && [].all(x, false)", [1, 2, 3]),
        ("self[size(self) - 1].n == 'last'", [{"n": "x"}, {"n": "last"}]),
        ("type(self) == string ? self == '99%' : self == 42", 42),
        ("self.?a.orValue(1) == 1", {}),
        # A term that decides makes the error of another irrelevant.
        ("self.b == 1 || self.a == 1", {"a": 1}),
        ("self.exists(x, x.a == 1)", [{}, {"a": 1}]),
        ("has(self.a) ? self.a == 1 : true", {}),
    ],
)
def test_rule_holds(rule: str, value: Plain) -> None:
    assert evaluate_rule(rule, value) == cel_rules.RuleResult(outcome="holds")


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("7.5 / 2.0 == 3.0", None),
        ("self == true", 1),
        ("self == 1", True),
        ("self == '1'", 1),
        ("self == 9007199254740992", 2**53 + 1),
        ("self.matches('^abc$')", "abc\n"),
        ("self.b == 1 && self.a == 2", {"a": 1}),
        ("!self.exists(x, x.a == 1)", [{}, {"a": 1}]),
    ],
)
def test_rule_is_violated(rule: str, value: Plain) -> None:
    assert evaluate_rule(rule, value) == cel_rules.RuleResult(outcome="violated")


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.a == 1", {}),
        ("self[1] == 1", [1]),
        ("self / 0 == 1", 1),
        ("self + 1 > 0", 2**63 - 1),
        ("self + 1.0 == 2.0", 1),
        ("self.startsWith('1')", 1),
        ("self.b == 1 || self.a == 2", {"a": 1}),
        ("self.all(x, 1 / x == 1)", [0, 1]),
    ],
)
def test_evaluation_error_is_a_violation_with_a_reason(rule: str, value: Plain) -> None:
    result = evaluate_rule(rule, value)
    assert result.outcome == "violated"
    assert result.reason


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("quantity('1Gi').isGreaterThan(quantity('1M'))", "undeclared reference to 'quantity'"),
        ("true || self.nosuch()", "undeclared reference to 'nosuch'"),
        ("self == oldSelf", "undeclared reference to 'oldSelf'"),
        ("self.__namespace__ == 'x'", "escaped property names are not supported"),
        ("self.a__dash__b == 1", "escaped property names are not supported"),
        ("1 == true", "found no matching overload"),
        ("self.a", "int instead of bool"),
        ("self.a ==", "Syntax error"),
    ],
)
def test_unsupported_rule_is_not_evaluated(rule: str, reason: str) -> None:
    result = evaluate_rule(rule, {"a": 1})
    assert result.outcome == "not evaluated"
    assert result.reason.startswith(reason)
    assert "\n" not in result.reason


def test_rule_is_not_evaluated_when_the_value_cannot_be_converted() -> None:
    assert evaluate_rule("self.a == 1", {"a": 1, "b": "\ud800"}).outcome == "not evaluated"


def test_rule_is_not_evaluated_when_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cel_rules._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    result = evaluate_rule("self.a == 1 && 'library' != 'missing'", {"a": 1})
    assert result.outcome == "not evaluated"
    assert "cel-expr-python cannot be imported" in result.reason


def test_library_is_imported_by_the_first_rule_only() -> None:
    code = """if True:
        import sys
        from gpuyard.provision.lint import lint
        from gpuyard.provision.validate.cel_rules import evaluate_rule
        assert not any(name.startswith("cel_expr_python") for name in sys.modules)
        evaluate_rule("true", None)
        assert "cel_expr_python.cel" in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_violated_rule_is_an_error_and_rule_not_evaluated_is_a_note() -> None:
    rules = ("self.a == 1", "self.a == 2", "self.b == 1", "quantity(self.a)")
    rows: list[Plain] = [{"rule": rule, "message": f"message of {rule}"} for rule in rules]
    schema = parse_schema({"type": "object", "x-kubernetes-validations": rows})
    findings = schema_findings({"a": 1}, schema, library("crds"))
    assert [(finding.severity, finding.what.split(" (")[0]) for finding in findings[:2]] == [
        ("error", "message of self.a == 2"),
        ("error", "message of self.b == 1"),
    ]
    assert [finding.severity for finding in findings[2:]] == ["note"]
    assert "quantity" in findings[2].what


@pytest.mark.parametrize("row", SHIPPED_RULES, ids=lambda row: row["rule"][:60])
def test_shipped_rule_separates_valid_from_invalid_value(row: dict[str, Plain]) -> None:
    rule = str(row["rule"])
    assert evaluate_rule(rule, row["satisfied_by"]) == cel_rules.RuleResult(outcome="holds")
    assert evaluate_rule(rule, row["violated_by"]) == cel_rules.RuleResult(outcome="violated")


def schemas_of(books: Library) -> Iterator[Schema]:
    """Yield every schema of a library, with those inside others."""
    pending = [books.schema(name) for name in books.raw]
    while pending:
        schema = pending.pop()
        yield schema
        inner = [*(schema.properties or {}).values(), schema.items, schema.additional]
        pending += [child for child in inner if child is not None]


def test_table_has_every_shipped_rule() -> None:
    rules = {rule.rule for schema in schemas_of(library("crds")) for rule in schema.rules}
    assert rules == {row["rule"] for row in SHIPPED_RULES}


def test_shipped_rules_read_no_number_field() -> None:
    """The API server reads an integer in a number field as a double; here it stays an int."""
    books = library("crds")

    def types_below(schema: Schema) -> set[str]:
        schema = books.resolved(schema)
        inner = [*(schema.properties or {}).values(), schema.items, schema.additional]
        below = (types_below(child) for child in inner if child is not None)
        return set(schema.types).union(*below)

    with_rules = [schema for schema in schemas_of(books) if schema.rules]
    assert with_rules
    assert all("number" not in types_below(schema) for schema in with_rules)
