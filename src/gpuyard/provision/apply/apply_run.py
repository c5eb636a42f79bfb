"""State that apply, rollback and destroy share: steps, journal, API clients and clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError
from gpuyard.provision.apply.calls import ApiCall, CallStep, ExistingResource, KubernetesObject
from gpuyard.provision.apply.journal import Event, Journal, JournalEntry, request_id
from gpuyard.provision.apply.step_client import ApiError, Clock, StepClient

POLLS = 8
POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRun:
    """One apply, rollback or destroy of a rendered deployment."""

    hash: Annotated[str, Doc("of the rendered deployment")]
    plan_hash: Annotated[str, Doc("value of the label plan-hash")]
    steps: tuple[CallStep, ...]
    journal: Journal
    google: StepClient[ApiCall]
    kubectl: StepClient[KubernetesObject]
    clock: Clock
    on_progress: Callable[[str], None]

    def client(self, step: CallStep) -> StepClient[CallStep]:
        client = self.google if isinstance(step, ApiCall) else self.kubectl
        return cast(StepClient[CallStep], client)

    def record(
        self,
        event: Event,
        step: CallStep,
        *,
        request: str = "",
        operation: str = "",
        note: str = "",
    ) -> None:
        """Append an entry to the journal; it is on disk when this returns."""
        entry = JournalEntry(
            event=event,
            step=step.step,
            resource=step.reference,
            request_id=request,
            operation=operation,
            note=note,
            at_s=round(self.clock.now_s(), 3),
        )
        self.journal.append(entry)

    def creation_request_id(self, step: CallStep) -> str:
        """Return the request id of a creation: the same for every retry of one attempt."""
        return request_id(self.hash, step.step, "make", self.journal.state(step.step).attempt)

    def deletion_request_id(self, step: CallStep) -> str:
        """Return the request id of a deletion: new each time, because deleting twice is safe."""
        deletions = sum(
            entry.event == "removing" and entry.step == step.step for entry in self.journal.entries
        )
        return request_id(self.hash, step.step, "remove", deletions)

    def is_recorded(self, step: CallStep) -> bool:
        """Return whether the journal says that this folder created the step's resource."""
        return self.journal.records(step.step, step.reference)

    def find(self, step: CallStep) -> ExistingResource | None:
        """Return the resource of a step if it exists; raise ExternalError if that is unknown."""
        try:
            return self.client(step).find(step)
        except ApiError as error:
            raise ExternalError(step.step, str(error), error.fix) from None

    def find_until(self, step: CallStep, *, exists: bool) -> ExistingResource | None:
        """Poll until the resource exists or is gone: reads can lag behind writes."""
        existing = self.find(step)
        for _ in range(POLLS):
            if (existing is not None) == exists:
                break
            self.clock.sleep(POLL_S)
            existing = self.find(step)
        return existing

    def owns(self, step: CallStep, existing: ExistingResource) -> bool:
        """Return whether this plan created a resource.

        Before the first call from this folder the expiry must match too: the same plan may have
        been applied from another rendering.
        """
        labels = existing.labels
        if labels is None or labels.plan_hash != self.plan_hash:
            return False
        if self.journal.state(step.step).phase != "untouched":
            return True
        expected = step.labels
        return expected is None or expected.expires == labels.expires
