"""Invariants of lost machines: enough restarts, groups that recreate, and scripts that end."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ArtefactDocument, ValueView
from gpuyard.provision.invariants.consumption import POD_CONSUMPTION
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant
from gpuyard.provision.invariants.pods import PodTemplate
from gpuyard.workload.where import ConsumptionName

INTERRUPTIONS = "catalog interruptions"
GROUPS = "Compute Engine: create a MIG that uses the bulk mode (2026-11)"
BULK_MODELS = ("RESERVATION_BOUND", "FLEX_START")


@invariant("restart-limit", applies_to="JobSet", source=INTERRUPTIONS)
def restarts_cover_interruptions(bundle: LintBundle) -> Iterator[Finding]:
    """A JobSet may restart as often as its machines are interrupted before the deadline."""
    for pod in bundle.pods:
        if pod.owner.kind_name != "JobSet" or pod.machine is None:
            continue
        deadline_s = _deadline_s(pod.owner)
        limit = pod.owner.root.at("spec", "failurePolicy", "maxRestarts")
        if deadline_s is None:
            continue
        from gpuyard.plan.interruptions import interruption_risk  # imports NumPy

        risk = interruption_risk(
            pod.machine, int(pod.replica_count), _consumption(pod), bundle.catalog
        )
        expected = deadline_s / risk.mean_time_between_s
        if (limit.number or 0) < expected:
            view = limit if limit.is_set else pod.owner.root["spec"]
            yield view.warning(
                f"{limit.number or 0:g} restarts, and about {expected:.0f} interruptions before "
                "the deadline",
                f"set failurePolicy.maxRestarts to at least {expected:.0f}",
            )


def _deadline_s(owner: ArtefactDocument) -> float | None:
    jobs = owner.root.at("spec", "replicatedJobs").items
    return jobs[0].at("template", "spec", "activeDeadlineSeconds").number if jobs else None


def _consumption(pod: PodTemplate) -> ConsumptionName:
    selector = pod.spec["nodeSelector"]
    is_spot = any(
        name == "spot" and selector[label].is_set for label, name in POD_CONSUMPTION.items()
    )
    return "spot" if is_spot else "on-demand"


@invariant("lost-machine", applies_to="InstanceGroupManager", source=GROUPS)
def group_recreates_lost_machines(bundle: LintBundle) -> Iterator[Finding]:
    """A group whose machines work together recreates a lost one; flex-start groups cannot."""
    for group in bundle.of_kind("InstanceGroupManager"):
        properties = _properties(bundle, group["instanceTemplate"].last_segment)
        if properties is None:
            continue
        model = properties.at("scheduling", "provisioningModel").text
        mode = group.at("targetSizePolicy", "mode")
        if mode.text == "BULK" and model not in BULK_MODELS:
            yield mode.error(
                f"bulk creation does not support {model or 'STANDARD'} machines",
                "remove targetSizePolicy, or use a reservation or flex-start",
            )
        action = group.at("instanceLifecyclePolicy", "defaultActionOnFailure")
        works_together = "MASTER_ADDR" in _startup_script(properties)
        if works_together and model != "FLEX_START" and action.text == "DO_NOTHING":
            yield action.warning(
                "a lost machine is not recreated, and the others cannot go on without it",
                "set defaultActionOnFailure to REPAIR",
            )


def _properties(bundle: LintBundle, template: str) -> ValueView | None:
    for properties in bundle.of_kind("InstanceProperties"):
        if properties.document.root["name"].text == template:
            return properties
    return None


def _startup_script(properties: ValueView) -> str:
    rows = properties.at("metadata", "items").items
    return next((row["value"].text for row in rows if row["key"].text == "startup-script"), "")


@invariant("nccl-order", applies_to="sbatch, startup scripts", source="slurm-gcp at 13fd92b6")
def settings_follow_vendor_script(bundle: LintBundle) -> Iterator[Finding]:
    """A script exports interface names after the plugin's profile, and keeps LD_LIBRARY_PATH."""
    for view, text in _host_scripts(bundle):
        before, profile, after = text.partition("nccl-env-profile.sh")
        names = "NCCL_SOCKET_IFNAME="
        if profile and names in before and names not in after:
            yield view.error(
                "nccl-env-profile.sh overwrites the interface names that are set before it",
                "source the profile first, then export the names",
            )
        for line in text.splitlines():
            _, assignment, value = line.partition("export LD_LIBRARY_PATH=")
            if assignment and "LD_LIBRARY_PATH" not in value:
                yield view.warning(
                    "LD_LIBRARY_PATH is replaced: the container loses its own libraries",
                    'write export LD_LIBRARY_PATH="PATH:$LD_LIBRARY_PATH"',
                )


def _host_scripts(bundle: LintBundle) -> Iterator[tuple[ValueView, str]]:
    for document in bundle.documents:
        if document.kind == "sbatch":
            yield document.root, document.text
    for properties in bundle.of_kind("InstanceProperties"):
        yield properties["metadata"], _startup_script(properties)
