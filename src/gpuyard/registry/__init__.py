"""Models as versions: bundles, lineage, aliases and cards, in the ledger or on an MLflow server."""

from gpuyard.registry.bundle import (
    CARD,
    DESCRIPTION,
    ONNX,
    TRANSFORM,
    WEIGHTS,
    Bundle,
    BundleFile,
    Kind,
    Lineage,
    Metric,
    Pair,
    Tensor,
    digest_of,
    read_bundle,
    write_bundle,
)
from gpuyard.registry.registry import ModelVersion, Registry

__all__ = [
    "CARD", "DESCRIPTION", "ONNX", "TRANSFORM", "WEIGHTS", "Bundle", "BundleFile", "Kind", "Lineage", "Metric",
    "ModelVersion", "Pair", "Registry", "Tensor", "digest_of", "read_bundle", "write_bundle",
]  # fmt: skip
