"""`gpuyard preflight` and `gpuyard diff`: a rendered folder against the cloud, changing nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyard.app.apply import ApplyTarget, ExternalServices
from gpuyard.app.workspace import catalog_with_blueprint
from gpuyard.catalog.load import Catalog
from gpuyard.document.read import parse_json
from gpuyard.errors import InputError
from gpuyard.provision.admission.admission import Admission
from gpuyard.provision.admission.cluster_state import COMMAND as KUBERNETES_COMMAND
from gpuyard.provision.admission.cluster_state import cluster_state
from gpuyard.provision.admission.job_requests import job_requests
from gpuyard.provision.admission.kueue import kueue_admissions
from gpuyard.provision.admission.slurm import COMMAND as SLURM_COMMAND
from gpuyard.provision.admission.slurm import slurm_admissions, slurm_jobs, slurm_state
from gpuyard.provision.apply.calls import ApiCall, KubernetesObject
from gpuyard.provision.apply.drift import StepDrift, find_drift
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.provision.apply.preflight import folder_problems
from gpuyard.provision.apply.rendered_deployment import check_rendering
from gpuyard.provision.apply.sweep import Leftover, sweep
from gpuyard.provision.artefact_document import ArtefactDocument
from gpuyard.provision.file_kinds import read_documents
from gpuyard.provision.lint import lint
from gpuyard.provision.preflight.check_row import CheckRow, failed, ok, unknown, warning
from gpuyard.provision.preflight.cloud_reader import CloudReader
from gpuyard.provision.preflight.dry_run import kubectl_rows, sbatch_rows
from gpuyard.provision.preflight.google_checks import (
    Target,
    capacity_rows,
    image_rows,
    permission_rows,
    place_rows,
    service_rows,
)
from gpuyard.provision.preflight.prices import price_rows
from gpuyard.provision.preflight.quotas import quota_rows

GOOGLE_CHECKS = (service_rows, permission_rows, place_rows, image_rows, quota_rows, capacity_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightResult:
    """Every check of a folder, and the proof of admission of its jobs."""

    rows: tuple[CheckRow, ...]
    admissions: tuple[Admission, ...] = ()

    @property
    def has_failures(self) -> bool:
        """Whether applying the folder would not work."""
        return any(row.verdict == "failed" for row in self.rows)


def preflight(
    prepared: ApplyTarget, world: ExternalServices, catalog: Catalog, cluster: str = ""
) -> PreflightResult:
    """Check a rendered folder against the cloud; `cluster` is the saved state of a cluster."""
    client = GoogleClient(transport=world.endpoint, clock=world.clock)
    rows = list(_folder_rows(prepared, world, catalog))
    if prepared.needs_google:
        reader = CloudReader(client=client)
        target = Target(
            blueprint=prepared.target.blueprint,
            settings=prepared.target.settings,
            steps=prepared.steps,
        )
        for check in GOOGLE_CHECKS:
            world.on_progress(f"checking {check.__name__.removesuffix('_rows')}")
            rows += check(target, reader)
        if prepared.target.blueprint.consumption is not None:
            rows += price_rows(target, reader, catalog)
    existing = _existing_clusters(prepared, client)
    rows += kubectl_rows(prepared.steps, existing)
    rows += sbatch_rows(prepared.target.artefacts, prepared.folder)
    admissions = tuple(_admissions(prepared, cluster)) if cluster else ()
    rows += [_admission_row(item) for item in admissions]
    return PreflightResult(rows=tuple(rows), admissions=admissions)


def _folder_rows(
    prepared: ApplyTarget, world: ExternalServices, catalog: Catalog
) -> Iterator[CheckRow]:
    target = prepared.target
    check_rendering(target, str(prepared.folder))
    problems = tuple(folder_problems(target, prepared.steps, world.clock.now_s()))
    for problem in problems:
        yield failed("folder", problem.where, problem.what, problem.fix)
    findings = lint(target.artefacts, catalog_with_blueprint(catalog, target.blueprint)).findings
    for item in findings:
        row = failed if item.severity == "error" else warning
        if item.severity != "note":
            yield row("lint", item.where, item.what, item.fix)
    if not problems and not findings:
        yield ok("folder", prepared.folder.name, "signed, fresh, with an end, no lint findings")
    bound = target.cost_bound
    if bound.unbounded:
        what = f"no upper bound: nothing terminates {bound.unbounded}"
        yield warning("cost", prepared.folder.name, what, "destroy it yourself when you are done")
    elif bound.max_usd is None:
        if target.blueprint.consumption is not None:
            yield unknown("cost", prepared.folder.name, "no price is known")
    else:
        yield ok("cost", prepared.folder.name, f"at most ${bound.max_usd:,.2f}")


def _existing_clusters(prepared: ApplyTarget, client: GoogleClient) -> frozenset[str]:
    wanted = {step.cluster_step for step in prepared.steps if isinstance(step, KubernetesObject)}
    return frozenset(
        step.step
        for step in prepared.steps
        if isinstance(step, ApiCall) and step.step in wanted and client.find(step) is not None
    )


def _admissions(prepared: ApplyTarget, cluster: str) -> Iterator[Admission]:
    documents = tuple(
        document
        for artefact in prepared.target.artefacts
        if artefact.name.endswith((".yaml", ".sbatch"))
        for document in read_documents(artefact)[0]
    )
    yield from admissions_of(documents, cluster)


def admissions_of(documents: Sequence[ArtefactDocument], cluster: str) -> Iterator[Admission]:
    """Yield the proof of admission of the jobs, given the saved state of a cluster."""
    if "NodeName=" in cluster:
        yield from slurm_admissions(tuple(slurm_jobs(documents)), slurm_state(cluster))
        return
    tree = parse_json(cluster, "--cluster")
    items = tree.get("items") if isinstance(tree, dict) else tree
    if not isinstance(items, list):
        fix = f"save what this prints: {KUBERNETES_COMMAND}, or {SLURM_COMMAND}"
        raise InputError.one("--cluster", "is not the state of a cluster", fix)
    # The queues that the folder creates exist once it is applied.
    own = [document.body for document in documents if document.kind == "kubernetes"]
    objects = [item for item in (*items, *own) if isinstance(item, dict)]
    yield from kueue_admissions(tuple(job_requests(documents)), cluster_state(objects))


def _admission_row(item: Admission) -> CheckRow:
    check, fix = "admission", "; or ".join(item.changes)
    if item.verdict in ("placed", "preempts"):
        return ok(check, item.job, f"{item.verdict}: {item.what}")
    if item.verdict == "never":
        return failed(check, item.job, f"never placed: {item.what}", fix)
    return warning(check, item.job, f"{item.verdict}: {item.what}", fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDrift:
    """The resources of a folder against the cloud, and those of the plan that it does not have."""

    steps: tuple[StepDrift, ...]
    extra: tuple[Leftover, ...]

    @property
    def is_same(self) -> bool:
        """Whether the cloud has what was rendered, all that could be read, and nothing more."""
        return not self.extra and all(step.state == "same" for step in self.steps)


def folder_drift(prepared: ApplyTarget, world: ExternalServices) -> FolderDrift:
    """Compare what the cloud has with what was rendered."""
    client = GoogleClient(transport=world.endpoint, clock=world.clock)
    steps = tuple(find_drift(prepared.steps, client))
    extra: tuple[Leftover, ...] = ()
    if prepared.needs_google:
        place = prepared.target.settings
        result = sweep(client, place.project, (place.region,), world.clock.now_s())
        own = {step.resource for step in prepared.steps if isinstance(step, ApiCall)}
        names = {step.name for step in prepared.steps if isinstance(step, ApiCall)}
        extra = tuple(
            item
            for item in result.leftovers
            if item.labels.plan_hash == prepared.target.plan_hash
            and item.resource not in own
            and not any(_is_part(item.name, name) for name in names)
        )
    return FolderDrift(steps=steps, extra=extra)


def _is_part(name: str, resource: str) -> bool:
    """Whether a resource was created by another one, e.g. a machine by its group."""
    return bool(resource) and (name == resource or name.startswith(f"{resource}-"))
