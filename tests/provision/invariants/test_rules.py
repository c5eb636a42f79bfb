"""Every invariant: samples that satisfy it, changes that violate it."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import InputError
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.invariants.rules import INVARIANTS

from ..trees import SAMPLES, changed, check, leaves, rules, sample
from .cases import CASES, Case


@pytest.mark.parametrize("name", sorted({name for case in CASES for name in case.samples}))
def test_sample_violates_no_rule(name: str) -> None:
    result = check(sample(name))
    assert [str(finding) for finding in result.findings if finding.severity != "note"] == []


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.rule}-{'+'.join(case.change)}"[:90]
)
def test_change_violates_the_rule(case: Case) -> None:
    artefacts = [sample(name) for name in case.samples]
    assert case.rule not in rules(check(*artefacts))
    artefacts[case.of] = changed(artefacts[case.of], case.change)
    findings = [finding for finding in check(*artefacts).findings if finding.rule == case.rule]
    assert findings
    assert all(finding.where.split(":")[0] in case.samples for finding in findings)
    assert all(finding.what and finding.fix for finding in findings)


def test_every_rule_has_a_case_that_violates_it() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in INVARIANTS}


def test_rules_have_unique_names_and_sources() -> None:
    assert len({rule.name for rule in INVARIANTS}) == len(INVARIANTS)
    assert all(rule.applies_to and rule.holds and rule.source for rule in INVARIANTS)


def test_rewritten_sample_has_no_findings() -> None:
    # The cases rewrite the file: that alone must not cause findings.
    for name in ("jobset-a3mega.yaml", "cluster.json", "blueprint.yaml"):
        assert rules(check(changed(sample(name), {}))) == set()


VALUES: tuple[Plain, ...] = (
    None,
    0,
    "x",
    [],
    {},
    True,
    -1.5,
    [{"a": 1}],
    {"a": ["b"]},
    "1-2",
    [None],
)
NAMES = sorted(path.name for path in SAMPLES.glob("*") if path.suffix != ".sbatch")


@settings(max_examples=150)
@given(name=st.sampled_from(NAMES), which=st.integers(min_value=0), value=st.sampled_from(VALUES))
def test_lint_does_not_crash_on_any_value(name: str, which: int, value: Plain) -> None:
    """A wrong file is a finding or an InputError, never a crash."""
    documents = list(yaml.safe_load_all(sample(name).text))
    places = [(index, path) for index, tree in enumerate(documents) for path, _ in leaves(tree)]
    index, path = places[which % len(places)]
    node = documents[index]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    dumped = json.dumps(documents[0]) if name.endswith(".json") else yaml.safe_dump_all(documents)
    with contextlib.suppress(InputError):
        assert all(str(finding) for finding in check(Artefact(name=name, text=dumped)).findings)
