"""Proof: a table of checks over a fabric or over cabling alone, each giving findings."""

from gpuyard.fabric.verify.claims import SizingClaim, check_name, check_sizing, named_count
from gpuyard.fabric.verify.deadlock import Circle, Deadlock, Valley
from gpuyard.fabric.verify.failures import Failures, Impact, Progress
from gpuyard.fabric.verify.finding import Check, Checked, Finding, Severity, Verification
from gpuyard.fabric.verify.verify import CABLING_CHECKS, FABRIC_CHECKS, verify, verify_topology

__all__ = [
    "CABLING_CHECKS", "FABRIC_CHECKS", "Check", "Checked", "Circle", "Deadlock", "Failures", "Finding", "Impact",
    "Progress", "Severity", "SizingClaim", "Valley", "Verification", "check_name", "check_sizing", "named_count",
    "verify", "verify_topology",
]  # fmt: skip
