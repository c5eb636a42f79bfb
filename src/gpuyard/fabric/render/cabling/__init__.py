"""Cabling and bill of materials as tables for people and scripts."""

from gpuyard.fabric.render.cabling.tables import cabling_csv, materials_csv

__all__ = ["cabling_csv", "materials_csv"]
