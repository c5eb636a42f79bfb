"""The jobs of a deployment as a scheduler sees them: pod sets, queue, selectors, tolerations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, cast

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.admission.cluster_state import Taint, Tree, part, resources_of, rows
from gpuyard.provision.admission.placement import PodSet
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.templates import pod_templates

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
ANNOTATION = "kueue.x-k8s.io/podset-"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPods:
    """A pod set, and the nodes that its pods accept."""

    pods: PodSet
    selector: Mapping[str, str]
    tolerations: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job that waits for admission by a Kueue queue."""

    name: str
    namespace: str
    queue: Annotated[str, Doc("its LocalQueue")]
    priority_class: str
    pod_sets: tuple[JobPods, ...]


def job_requests(documents: Sequence[ArtefactDocument]) -> Iterator[JobRequest]:
    """Yield the jobs of the documents that name a Kueue queue."""
    for document in documents:
        if document.kind != "kubernetes":
            continue
        meta = document.root["metadata"]
        queue = meta.at("labels", QUEUE).text
        templates = [template for template, _, _ in pod_templates(document)]
        if not queue or not templates:
            continue
        counts = [int(count) for _, count, _ in pod_templates(document)]
        yield JobRequest(
            name=f"{document.kind_name} {document.name}",
            namespace=meta["namespace"].text or "default",
            queue=queue,
            priority_class=meta.at("labels", PRIORITY).text,
            pod_sets=tuple(
                _job_pods(f"pods {index}", template, count)
                for index, (template, count) in enumerate(zip(templates, counts, strict=True))
            ),
        )


def _job_pods(name: str, template: ValueView, count: int) -> JobPods:
    spec = cast(Tree, template["spec"].value if isinstance(template["spec"].value, dict) else {})
    annotations = template.at("metadata", "annotations")

    def annotation(word: str) -> str:
        return annotations[f"{ANNOTATION}{word}"].text

    size = annotations[f"{ANNOTATION}slice-size"].number
    slice_level = annotation("slice-required-topology")
    return JobPods(
        pods=PodSet(
            name=name,
            pod_count=count,
            requests=resources_of(spec),
            required=annotation("required-topology"),
            preferred=annotation("preferred-topology"),
            slice_level=slice_level,
            slice_pod_count=int(size) if slice_level and size else 1,
        ),
        selector={key: str(value) for key, value in part(spec, "nodeSelector").items()},
        tolerations=tuple(rows(spec, "tolerations")),
    )


def tolerates(taint: Taint, tolerations: Sequence[Tree]) -> bool:
    """Return whether pods with these tolerations may run on a node with this taint."""
    for row in tolerations:
        key, effect = row.get("key"), row.get("effect")
        same_effect = not effect or effect == taint.effect
        exists = row.get("operator") == "Exists"
        if same_effect and ((not key and exists) or (key == taint.key and _value(row, taint))):
            return True
    return False


def _value(row: Mapping[str, Plain], taint: Taint) -> bool:
    return row.get("operator") == "Exists" or str(row.get("value") or "") == taint.value
