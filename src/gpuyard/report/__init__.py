"""Telling: values to text and JSON."""

from gpuyard.report.table import Column, Table, show_value
from gpuyard.report.terminal import print_doing, print_json, print_progress, print_table, print_text

__all__ = ["Column", "Table", "print_doing", "print_json", "print_progress", "print_table", "print_text", "show_value"]
