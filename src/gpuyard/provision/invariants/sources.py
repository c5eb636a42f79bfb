"""Words that several invariants share: what they apply to, and the sources they cite."""

from __future__ import annotations

MACHINES = "Instance, InstanceTemplate, NodePool, CustomJob, Cluster Director, blueprint, TPU"
PODS = "pods of any workload"
SBATCH = "sbatch"

TOOLKIT = "Cluster Toolkit, gke-node-pool preconditions (2026-06-25)"
TOOLKIT_EXAMPLES = "Toolkit examples (2026-06-25)"
ACCELERATORS = "container-engine-accelerators (2026-06-11)"
API = "API descriptions (2026-11-06)"
GKE = "GKE: create an AI-optimized cluster (stored copy)"
KUEUE = "Kueue at ff69552 (2026-08-22)"
CATALOG = "catalog machines"
SAFETY = "gpuyard: safety"
