"""Findings as SARIF and JUnit XML."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from gpuyard.errors import Finding
from gpuyard.provision.lint import LintedDocument, LintResult
from gpuyard.report.lint_formats import junit_text, sarif_text

RESULT = LintResult(
    documents=(
        LintedDocument(file="a.yaml", number=1, type="v1 Pod", name="a"),
        LintedDocument(file="b.yaml", number=1, type="v1 Pod", name="b"),
    ),
    findings=(
        Finding(rule="names", severity="error", where="a.yaml:3: metadata", what="<bad>", fix="do"),
        Finding(rule="script-end", severity="warning", where="b.yaml", what="no end"),
    ),
    fabrics=(),
)


def test_sarif_has_rules_levels_and_places() -> None:
    tree = json.loads(sarif_text(RESULT))
    assert tree["version"] == "2.1.0"
    (run,) = tree["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["names", "script-end"]
    assert all(rule["shortDescription"]["text"] for rule in rules)
    first, second = run["results"]
    assert (first["ruleId"], first["level"]) == ("names", "error")
    assert rules[second["ruleIndex"]]["id"] == second["ruleId"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a.yaml"}, "region": {"startLine": 3}}
    assert "region" not in second["locations"][0]["physicalLocation"]
    assert first["message"]["text"] == "<bad>. Fix: do"


def test_junit_fails_files_with_errors_and_with_strict_also_warnings() -> None:
    suite = ElementTree.fromstring(junit_text(RESULT, strict=False))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = {case.get("name"): case.find("failure") for case in suite}
    assert failed["b.yaml"] is None
    assert failed["a.yaml"] is not None
    assert failed["a.yaml"].get("type") == "names"
    strict = ElementTree.fromstring(junit_text(RESULT, strict=True))
    assert strict.get("failures") == "2"
