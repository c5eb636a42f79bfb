"""Invariant of keys that no schema lists: misspelled labels, annotations and resources."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.validate.blueprint import edits

MAPS = ("labels", "annotations", "nodeSelector", "nodeLabels", "matchLabels", "limits", "requests")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
MAX_EDITS = 2  # different letters between a misspelled key and the known one
KNOWN = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "autoscaling.knative.dev/maxScale",
    "autoscaling.knative.dev/minScale",
    "cloud.google.com/compute-class",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-host",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-accelerator-count",
    "cloud.google.com/gke-flex-start",
    "cloud.google.com/gke-gpu",
    "cloud.google.com/gke-gpu-driver-version",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-queued",
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-tpu-topology",
    "cloud.google.com/machine-family",
    "cloud.google.com/reservation-affinity",
    "cloud.google.com/reservation-name",
    "gke-gcsfuse/cpu-limit",
    "gke-gcsfuse/ephemeral-storage-limit",
    "gke-gcsfuse/memory-limit",
    "gke-gcsfuse/volumes",
    "google.com/tpu",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/priority-class",
    "kueue.x-k8s.io/queue-name",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/name",
    "networking.gke.io/default-interface",
    "networking.gke.io/interfaces",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu",
    "provreq.kueue.x-k8s.io/maxRunDurationSeconds",
    "run.googleapis.com/accelerator",
    "run.googleapis.com/cpu-throttling",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)


@invariant(
    "known-keys",
    applies_to="Kubernetes objects, Cloud Run",
    source="GKE, Kueue, JobSet, LeaderWorkerSet and Cloud Run labels (2026-08-22)",
)
def known_keys_are_spelled_correctly(bundle: LintBundle) -> Iterator[Finding]:
    """Labels, annotations and resources with a meaning are spelled correctly."""
    # The platform ignores a misspelled key without an error.
    for document in bundle.documents:
        if document.kind == "kubernetes" or document.type.startswith("run."):
            yield from _misspelled(document.root)


def _misspelled(view: ValueView) -> Iterator[Finding]:
    for key, child in view.pairs:
        for name, value in child.pairs if key in ("limits", "requests") else ():
            if "/" not in name and not name.startswith("hugepages-") and name not in RESOURCES:
                fix = f"use {', '.join(RESOURCES)}, or a name with a domain such as nvidia.com/gpu"
                yield value.error(f'Kubernetes has no resource "{name}"', fix)
        for name, value in child.pairs if key in MAPS else ():
            if name not in KNOWN and (match := _similar_key(name)):
                what = f'unknown key "{name}", similar to {match}'
                yield value.warning(what, f"write {match}")
        for row in child.items if key == "tolerations" else ():
            name = row["key"].text
            if name not in KNOWN and (match := _similar_key(name)):
                what = f'toleration of "{name}", similar to {match}: the taint stays'
                yield row["key"].warning(what, f"write {match}")
        yield from _misspelled(child)
    for item in view.items:
        yield from _misspelled(item)


def _similar_key(name: str) -> str:
    # A key without its last words, such as queue for queue-name.
    domain, _, word = name.partition("/")
    longer = [known for known in KNOWN if word and known.startswith(f"{domain}/{word}-")]
    if len(longer) == 1:
        return longer[0]
    for known in difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.8):
        if edits(name, known) <= MAX_EDITS:
            return known
    return ""
