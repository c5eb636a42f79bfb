"""The recipe "Add a check of fabrics" of CONTRIBUTING.md: one module and one line of a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .checkout import Checkout

CHECK = """
from gpuyard.fabric.verify.finding import Check, error


def _even(subject):
    count = len(subject.fabric.of_role("spine"))
    if count % 2:
        yield error("even-spines", "spines", f"{count} spines", "add one")


CHECKS = (Check(name="even-spines", verifies="the number of spines is even", find=_even),)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    copy = Checkout(tmp_path, "Add a check of fabrics")
    copy.write("src/gpuyard/fabric/verify/toy.py", CHECK)
    verify = "src/gpuyard/fabric/verify/verify.py"
    copy.insert(verify, "from gpuyard.fabric.verify.consistency", IMPORT)
    copy.insert(verify, "    *balancing.CHECKS,\n", "    *toy.CHECKS,\n")
    return copy


IMPORT = "from gpuyard.fabric.verify import toy\n"


@pytest.mark.slow
@pytest.mark.parametrize(("spines", "verdict"), [(4, "passed"), (5, "failed")])
def test_new_check_is_run_on_fabrics(checkout: Checkout, spines: int, verdict: str) -> None:
    output = checkout.run("-c", USE.format(spines=spines))
    result = json.loads(output)
    assert result == [verdict, ["even-spines"] if verdict == "failed" else []]


USE = """
import json
from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.verify.verify import verify

catalog = load_catalog()
demand = Demand(
    server_count=4, nic_bits_per_s=400e9, rails=2, gpus_per_server=2, servers_per_stripe=2,
    spine_count={spines}, links_per_pair=1,
)
verification = verify(design(demand, catalog), catalog)
(verdict,) = (check.verdict for check in verification.checks if check.name == "even-spines")
print(json.dumps([verdict, [finding.rule for finding in verification.errors]]))
"""
