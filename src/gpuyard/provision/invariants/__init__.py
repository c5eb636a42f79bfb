"""Rules that no schema knows, and the facts behind them."""

from gpuyard.provision.invariants.bundle import Bundle, Hit, Invariant, bundle_of
from gpuyard.provision.invariants.facts import Facts, read_facts
from gpuyard.provision.invariants.gpudirect import Reach, reaches
from gpuyard.provision.invariants.table import INVARIANTS

__all__ = ["INVARIANTS", "Bundle", "Facts", "Hit", "Invariant", "Reach", "bundle_of", "reaches", "read_facts"]
