"""The decision: plan, fabric, findings and simulation, frozen; save, load, diff."""

from gpuyard.blueprint.blueprint import Blueprint, Proof, Shape
from gpuyard.blueprint.diff import Change, diff_blueprints
from gpuyard.blueprint.make import make_blueprint, ways_of
from gpuyard.blueprint.saved import blueprint_from_json, blueprint_hash, blueprint_to_json

__all__ = [
    "Blueprint", "Change", "Proof", "Shape", "blueprint_from_json", "blueprint_hash", "blueprint_to_json",
    "diff_blueprints", "make_blueprint", "ways_of",
]  # fmt: skip
