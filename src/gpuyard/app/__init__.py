"""The verbs: what each command does, as functions that a Python program can call too."""

from gpuyard.app.catalog import KINDS, Query, catalog_rows, row_with_sources

__all__ = ["KINDS", "Query", "catalog_rows", "row_with_sources"]
