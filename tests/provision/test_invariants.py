"""Every invariant: samples that keep it, changes that break it."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.document import Plain
from gpuyard.errors import InputError
from gpuyard.provision import Artefact
from gpuyard.provision.invariants import INVARIANTS

from .cases import CASES, Case
from .trees import SAMPLES, changed, check, leaves, rules, sample


@pytest.mark.parametrize("name", sorted({name for case in CASES for name in case.samples}))
def test_a_sample_keeps_every_rule(name: str) -> None:
    found = check(sample(name))
    assert [str(finding) for finding in found.findings if finding.severity != "note"] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{'+'.join(case.change)}"[:90])
def test_a_change_breaks_the_rule(case: Case) -> None:
    artefacts = [sample(name) for name in case.samples]
    assert case.rule not in rules(check(*artefacts))
    artefacts[case.of] = changed(artefacts[case.of], case.change)
    hits = [finding for finding in check(*artefacts).findings if finding.rule == case.rule]
    assert hits
    assert all(finding.where.split(":")[0] in case.samples for finding in hits)
    assert all(finding.what and finding.fix for finding in hits)


def test_every_rule_has_a_case_that_breaks_it() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in INVARIANTS}


def test_rules_are_told_apart_and_cited() -> None:
    assert len({rule.name for rule in INVARIANTS}) == len(INVARIANTS)
    assert all(rule.applies_to and rule.holds and rule.source for rule in INVARIANTS)


def test_a_rewritten_sample_says_the_same() -> None:
    """The changes above are made on a tree: writing it anew must not make findings of its own."""
    for name in ("jobset-a3mega.yaml", "cluster.json", "blueprint.yaml"):
        assert rules(check(changed(sample(name), {}))) == set()


VALUES: tuple[Plain, ...] = (None, 0, "x", [], {}, True, -1.5, [{"a": 1}], {"a": ["b"]}, "1-2", [None])
NAMES = sorted(path.name for path in SAMPLES.glob("*") if path.suffix != ".sbatch")


@settings(max_examples=150)
@given(name=st.sampled_from(NAMES), which=st.integers(min_value=0), value=st.sampled_from(VALUES))
def test_no_value_at_any_place_is_a_traceback(name: str, which: int, value: Plain) -> None:
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
