"""A rule of keys that no schema lists: labels, annotations and resources that are nearly ones that mean something."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from gpuyard.provision.invariants.bundle import Bundle, Hit
from gpuyard.provision.part import View

__all__ = ["known_keys_are_spelt_right"]

MAPS = ("labels", "annotations", "nodeSelector", "nodeLabels", "matchLabels", "limits", "requests")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "storage", "pods")
LETTERS = 2  # that may be wrong in a key that is nearly a known one
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


def known_keys_are_spelt_right(bundle: Bundle) -> Iterator[Hit]:
    """A key that is nearly one that means something is that one, misspelt: the platform ignores it in silence."""
    for part in bundle.parts:
        if part.kind == "kubernetes" or part.type.startswith("run."):
            yield from _misspelt(part.root)


def _misspelt(view: View) -> Iterator[Hit]:
    """Keys of the maps below a view that are nearly known ones."""
    for key, child in view.pairs:
        for name, value in child.pairs if key in ("limits", "requests") else ():
            if "/" not in name and not name.startswith("hugepages-") and name not in RESOURCES:
                fix = f"use {', '.join(RESOURCES)}, or a name with a domain such as nvidia.com/gpu"
                yield Hit(view=value, what=f'Kubernetes has no resource "{name}"', fix=fix)
        for name, value in child.pairs if key in MAPS else ():
            if name not in KNOWN and (meant := _nearly(name)):
                what = f'"{name}" means nothing: it is nearly {meant}'
                yield Hit(view=value, what=what, fix=f"write {meant}", severity="warning")
        yield from _misspelt(child)
    for item in view.items:
        yield from _misspelt(item)


def _nearly(name: str) -> str:
    """The known key that differs in a letter or two, or an empty text."""
    for known in difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.8):
        same = sum(
            block.size for block in difflib.SequenceMatcher(None, name, known, autojunk=False).get_matching_blocks()
        )
        if max(len(name), len(known)) - same <= LETTERS:
            return known
    return ""
