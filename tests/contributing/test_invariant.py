"""The recipe "Add an invariant" of CONTRIBUTING.md: one module and one line of a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .checkout import Checkout

INVARIANT = '''
from gpuyard.provision.invariants.lint_bundle import invariant


@invariant("toy-prefix", applies_to="ConfigMap", source="an example")
def names_start_with_toy(bundle):
    """Config maps are named toy-."""
    for view in bundle.of_kind("ConfigMap"):
        name = view.at("metadata", "name")
        if not name.text.startswith("toy-"):
            yield name.error(f"{name.text} has no prefix", "start it with toy-")
'''
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: toy-settings}\n"
LINT = """
import json
from gpuyard.catalog.load import load_catalog
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.lint import lint

texts = ({good!r}, {bad!r})
results = [lint((Artefact(name="map.yaml", text=text),), load_catalog()) for text in texts]
print(json.dumps([[finding.rule for finding in result.findings] for result in results]))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    copy = Checkout(tmp_path, "Add an invariant")
    copy.write("src/gpuyard/provision/invariants/toy.py", INVARIANT)
    rules = "src/gpuyard/provision/invariants/rules.py"
    copy.insert(rules, "    workloads,\n", "    toy,\n")
    copy.insert(rules, "    names.names_are_valid,\n", "    toy.names_start_with_toy,\n")
    return copy


@pytest.mark.slow
def test_new_invariant_is_linted_and_listed(checkout: Checkout) -> None:
    output = checkout.run("-c", LINT.format(good=MAP, bad=MAP.replace("toy-", "other-")))
    assert json.loads(output) == [[], ["toy-prefix"]]
    assert "toy-prefix" in checkout.run("-m", "gpuyard", "lint", "--rules")
