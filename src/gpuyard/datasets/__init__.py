"""Data management: read, clean, normalise, make features, split, shard; the fitted transform for serving."""

import gpuyard.datasets.allocator  # noqa: F401  before Polars
from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.engines import Engine, LocalEngine, RayEngine
from gpuyard.datasets.folds import Fold, FoldKind, folds
from gpuyard.datasets.manifest import Counted, Lineage, Manifest, Shard, Split
from gpuyard.datasets.passes import Progress
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import Arrays, Prepared, load_prepared
from gpuyard.datasets.spec import DataSpec, OutputSpec, ReadSpec, SplitSpec, check_spec
from gpuyard.datasets.steps import Step
from gpuyard.datasets.text.shards import TokenShards
from gpuyard.datasets.transform import FittedTransform, load_transform

__all__ = [
    "Arrays", "Column", "Columns", "Counted", "DataSpec", "Engine", "FittedTransform", "Fold", "FoldKind", "Lineage",
    "LocalEngine", "Manifest", "OutputSpec", "Prepared", "Progress", "RayEngine", "ReadSpec", "Shard", "Split",
    "SplitSpec", "Step", "TokenShards", "check_spec", "folds", "load_prepared", "load_transform", "prepare",
]  # fmt: skip
