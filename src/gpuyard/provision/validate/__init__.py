"""Strict offline validation: schemas, CEL rules, blueprint variables and batch scripts."""

from gpuyard.provision.validate.schema import Fault, faults

__all__ = ["Fault", "faults"]
