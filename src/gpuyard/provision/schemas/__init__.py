"""Official API descriptions as strict schemas, shipped with their revision dates."""

from gpuyard.provision.schemas.library import (
    GOOGLE_APIS,
    KUBERNETES_LIBRARIES,
    Library,
    Method,
    Module,
    Origin,
    library,
    library_of,
    toolkit_modules,
)
from gpuyard.provision.schemas.schema import CelRule, Schema, parse_schema

__all__ = [
    "GOOGLE_APIS",
    "KUBERNETES_LIBRARIES",
    "CelRule",
    "Library",
    "Method",
    "Module",
    "Origin",
    "Schema",
    "library",
    "library_of",
    "parse_schema",
    "toolkit_modules",
]
