"""`gpuyard provision --apply` and `--destroy`, and `gpuyard sweep`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.app.workspace import catalog_with_blueprint
from gpuyard.catalog.load import Catalog
from gpuyard.errors import ExternalError, InputError, Problem
from gpuyard.provision.apply.apply_run import ApplyRun
from gpuyard.provision.apply.calls import ApiCall, CallStep, ManualStep, plan_calls
from gpuyard.provision.apply.credentials import application_default_token
from gpuyard.provision.apply.destroy import DeletionResult, destroy
from gpuyard.provision.apply.earlier_cost import earlier_cost_usd
from gpuyard.provision.apply.execute import ApplyResult, apply
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.provision.apply.journal import (
    JOURNAL_FILE,
    Journal,
    JournalEntry,
    check_nothing_deployed,
    live_steps,
)
from gpuyard.provision.apply.kubectl import KubectlClient
from gpuyard.provision.apply.preflight import check_preflight
from gpuyard.provision.apply.rendered_deployment import (
    RenderedDeployment,
    check_rendering,
    read_rendered_deployment,
)
from gpuyard.provision.apply.signing import (
    SIGNATURE,
    SigningKey,
    check_signature,
    existing_key,
)
from gpuyard.provision.apply.step_client import Clock, RealClock
from gpuyard.provision.apply.sweep import SweepResult, delete_leftovers, sweep
from gpuyard.provision.apply.transport import ApiTransport, GoogleTransport, LocalTransport
from gpuyard.provision.deployment import DEPLOYMENT
from gpuyard.provision.lint import lint

ENDPOINT = "GPUYARD_ENDPOINT"
CLOCK = RealClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalServices:
    """API transport, clock and progress callback of an apply."""

    endpoint: ApiTransport
    clock: Clock = CLOCK
    on_progress: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyTarget:
    """A rendered folder whose signature and checksums match, ready to apply or destroy."""

    folder: Path
    key: SigningKey
    target: RenderedDeployment
    steps: tuple[CallStep, ...]
    manual: tuple[ManualStep, ...]
    entries: tuple[JournalEntry, ...]

    @property
    def needs_google(self) -> bool:
        """Whether any step calls a Google API."""
        return any(isinstance(step, ApiCall) for step in self.steps)

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier apply may have left resources."""
        return bool(live_steps(self.entries))

    @property
    def earlier_usd(self) -> float:
        """The most that earlier attempts have cost."""
        return earlier_cost_usd(self.entries, self.steps, self.target.cost_bound)


def prepare(path: Path, context: str = "") -> ApplyTarget:
    """Read a rendered folder; InputError where it was changed or not rendered here."""
    folder = path.parent if path.name == DEPLOYMENT else path
    if not folder.is_dir():
        fix = "name the folder that `gpuyard provision FILE --on PLATFORM -o DIR` wrote"
        raise InputError.one(str(path), "is not a folder of rendered files", fix)
    texts = _texts(folder)
    if DEPLOYMENT not in texts:
        fix = "write one with `gpuyard provision FILE --on PLATFORM -o DIR`"
        raise InputError.one(str(folder), "contains no rendered deployment", fix)
    key = existing_key(f"{folder}/{SIGNATURE}")
    check_signature(texts[DEPLOYMENT], texts.get(SIGNATURE), key, str(folder))
    target = read_rendered_deployment(texts, str(folder))
    steps, manual = plan_calls(target.artefacts, context)
    entries = Journal.read(folder / JOURNAL_FILE, key)
    begun = next(
        (entry.deployment for entry in reversed(entries) if entry.event == "begin"), target.hash
    )
    if begun != target.hash:
        check_nothing_deployed(folder)
    return ApplyTarget(
        folder=folder, key=key, target=target, steps=steps, manual=manual, entries=entries
    )


def _texts(folder: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if (
            path.is_file()
            and not is_hidden  # such as terraform/.terraform
            and (
                re.match(r"\d\d-", name)
                or path.suffix in (".json", ".sh", ".md", ".sig", ".yaml")
                or "/" in name
            )
        ):
            try:
                texts[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise InputError.one(
                    str(path), "is not text", "take it away: it was not rendered"
                ) from None
    return texts


def connect(*, is_needed: bool = True) -> ApiTransport:
    """Connect to Google with the user's credentials, or to a local server in its place."""
    local = os.environ.get(ENDPOINT, "")
    if local:
        return LocalTransport(base=local)
    return GoogleTransport(token=application_default_token() if is_needed else _no_token)


def _no_token() -> str:
    raise AssertionError


def apply_folder(
    prepared: ApplyTarget,
    world: ExternalServices,
    *,
    most_usd: float | None,
    accept_stale: bool = False,
    rollback: bool = False,
    catalog: Catalog,
) -> ApplyResult:
    """Create the resources of a folder, or resume an interrupted apply.

    Every check runs each time: nothing in the folder can switch one off.
    """
    check_preflight(
        prepared.target,
        prepared.steps,
        world.clock.now_s(),
        most_usd,
        accept_stale=accept_stale,
        earlier_usd=prepared.earlier_usd,
    )
    check_rendering(prepared.target, str(prepared.folder))
    _check_lint(prepared.target, catalog)
    with _work(prepared, world, "apply") as work:
        return apply(work, rollback=rollback)


def _check_lint(target: RenderedDeployment, catalog: Catalog) -> None:
    """Raise InputError for lint errors and for resources without a TTL."""
    findings = lint(target.artefacts, catalog_with_blueprint(catalog, target.blueprint)).findings
    problems = [
        Problem(where=item.where, what=item.what, fix=item.fix)
        for item in findings
        if item.severity == "error" or item.rule == "has-an-end"
    ]
    if problems:
        raise InputError(problems)


def destroy_folder(prepared: ApplyTarget, world: ExternalServices) -> tuple[DeletionResult, ...]:
    """Delete the resources that the folder created, and check that they are gone."""
    with _work(prepared, world, "destroy") as work:
        return destroy(work)


@contextmanager
def _work(prepared: ApplyTarget, world: ExternalServices, verb: str) -> Iterator[ApplyRun]:
    """Open the journal of a folder for the duration of an apply or destroy."""
    journal = Journal.open(prepared.folder / JOURNAL_FILE, prepared.key)
    try:
        if tuple(journal.entries) != prepared.entries:
            what = "changed while the checks ran: another apply or destroy has just finished"
            raise ExternalError(str(journal.path), what, "run the command again")
        now_s = round(world.clock.now_s(), 3)
        journal.append(
            JournalEntry(event="begin", deployment=prepared.target.hash, note=verb, at_s=now_s)
        )
        yield ApplyRun(
            hash=prepared.target.hash,
            plan_hash=prepared.target.plan_hash,
            steps=prepared.steps,
            journal=journal,
            google=GoogleClient(transport=world.endpoint, clock=world.clock),
            kubectl=KubectlClient(),
            clock=world.clock,
            on_progress=world.on_progress,
        )
    finally:
        journal.close()


def sweep_project(
    world: ExternalServices,
    project: str,
    regions: tuple[str, ...],
    *,
    plan: str = "",
    expired: bool = False,
) -> SweepResult:
    """List leftover resources of a project by label; optionally of one plan or expired only."""
    client = GoogleClient(transport=world.endpoint, clock=world.clock)
    result = sweep(client, project, regions, world.clock.now_s())
    leftovers = tuple(
        item
        for item in result.leftovers
        if item.labels.plan_hash == (plan[:16] or item.labels.plan_hash)
        and (item.is_expired or not expired)
    )
    return SweepResult(leftovers=leftovers, unread=result.unread)


def remove_swept(world: ExternalServices, swept: SweepResult) -> tuple[DeletionResult, ...]:
    """Delete the resources that a sweep listed."""
    client = GoogleClient(transport=world.endpoint, clock=world.clock)
    return delete_leftovers(client, swept.leftovers, world.on_progress)
