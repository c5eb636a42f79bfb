"""Findings of `gpuyard lint` in the formats of CI systems: SARIF 2.1.0 and JUnit XML."""

from __future__ import annotations

import json
from collections import defaultdict
from xml.etree import ElementTree

from gpuyard import __version__
from gpuyard.errors import Finding, Severity
from gpuyard.provision.invariants.rules import INVARIANTS
from gpuyard.provision.lint import LintResult
from gpuyard.provision.suppressions import place_of

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "note"}


def sarif_text(result: LintResult) -> str:
    """Return the findings as SARIF, which code scanning of GitHub and GitLab reads."""
    holds = {rule.name: rule.holds for rule in INVARIANTS}
    names = sorted({finding.rule for finding in result.findings})
    rules = [
        {"id": name, "shortDescription": {"text": holds.get(name, f"check: {name}")}}
        for name in names
    ]
    run = {
        "tool": {
            "driver": {
                "name": "gpuyard",
                "version": __version__,
                "rules": rules,
            }
        },
        "results": [_sarif_result(finding, names) for finding in result.findings],
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_result(finding: Finding, names: list[str]) -> dict[str, object]:
    place = place_of(finding)
    location: dict[str, object] = {"artifactLocation": {"uri": place.file}}
    if place.line:
        location["region"] = {"startLine": place.line}
    return {
        "ruleId": finding.rule,
        "ruleIndex": names.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": location}],
    }


def _message(finding: Finding) -> str:
    return f"{finding.what}. Fix: {finding.fix}" if finding.fix else finding.what


def junit_text(result: LintResult, *, strict: bool) -> str:
    """Return one test case per file: it fails for errors, and with `strict` for warnings."""
    severities = ("error", "warning") if strict else ("error",)
    failures: dict[str, list[Finding]] = defaultdict(list)
    files = dict.fromkeys(document.file for document in result.documents)
    for finding in result.findings:
        if finding.severity in severities:
            failures[place_of(finding).file].append(finding)
    files |= dict.fromkeys(failures)
    suite = ElementTree.Element(
        "testsuite", name="gpuyard lint", tests=str(len(files)), failures=str(len(failures))
    )
    for file in files:
        case = ElementTree.SubElement(suite, "testcase", classname="gpuyard.lint", name=file)
        for finding in failures[file]:
            failure = ElementTree.SubElement(
                case, "failure", type=finding.rule, message=_message(finding)
            )
            failure.text = str(finding)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
