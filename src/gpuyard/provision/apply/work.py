"""What apply, rollback and destroy share: the sealed deployment, its journal, the hands, the clock, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from gpuyard.document import Doc
from gpuyard.errors import RefusedError
from gpuyard.provision.apply.calls import Call, CallStep, Found, Manifest
from gpuyard.provision.apply.hand import Clock, FailedError, Hand
from gpuyard.provision.apply.journal import Entry, Event, Journal, request_id

__all__ = ["Work", "is_ours"]

LOOKS = 8
LOOK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One run over a deployment."""

    hash: Annotated[str, Doc("of the sealed deployment")]
    label: Annotated[str, Doc("value of the label plan-hash")]
    steps: tuple[CallStep, ...]
    journal: Journal
    calls: Hand[Call]
    manifests: Hand[Manifest]
    clock: Clock
    tell: Callable[[str], None]

    def hand(self, step: CallStep) -> Hand[CallStep]:
        """What works on a step."""
        return cast(Hand[CallStep], self.calls if isinstance(step, Call) else self.manifests)

    def note(self, event: Event, step: CallStep, *, request: str = "", operation: str = "", note: str = "") -> None:
        """Writes a line of the journal; it is on the disk when this returns."""
        self.journal.append(
            Entry(
                event=event, step=step.step, request_id=request, operation=operation, note=note,
                at_s=round(self.clock.now_s(), 3),
            )
        )  # fmt: skip

    def request(self, step: CallStep, verb: str) -> str:
        """The request id of a step: the same until its round ends."""
        attempt = self.journal.state(step.step).round
        if verb == "remove":  # a deletion that failed is asked for anew; twice is no harm
            attempt = sum(entry.event == "removing" and entry.step == step.step for entry in self.journal.entries)
        return request_id(self.hash, step.step, verb, attempt)

    def find(self, step: CallStep) -> Found | None:
        """What stands of a step; RefusedError where even that cannot be seen."""
        try:
            return self.hand(step).find(step)
        except FailedError as failure:
            raise RefusedError(step.step, str(failure), failure.fix) from None

    def look_until(self, step: CallStep, *, stands: bool) -> Found | None:
        """Looks until it stands, or until it is gone: lists and addresses can be a moment behind."""
        found = self.find(step)
        for _ in range(LOOKS):
            if (found is not None) == stands:
                break
            self.clock.sleep(LOOK_S)
            found = self.find(step)
        return found


def is_ours(step: CallStep, found: Found, label: str, *, exactly: bool) -> bool:
    """Whether this plan made it; `exactly`: this very rendering, whose lifetime is the same."""
    if found.stamp is None or found.stamp.plan_hash != label:
        return False
    return not exactly or isinstance(step, Manifest) or step.stamp is None or step.stamp.expires == found.stamp.expires
