"""Cabling as it was built, read from tables and from what devices report, against the design."""

from gpuyard.fabric.imports.built import AsBuilt, as_built
from gpuyard.fabric.imports.compare import compare
from gpuyard.fabric.imports.read import Report, read_reports
from gpuyard.fabric.imports.sighting import Sighting

__all__ = ["AsBuilt", "Report", "Sighting", "as_built", "compare", "read_reports"]
