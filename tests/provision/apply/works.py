"""Work on artefacts that no folder holds, in this process, against a fake."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.provision.apply import Journal, Work, plan_calls
from gpuyard.provision.apply.endpoint import LocalEndpoint
from gpuyard.provision.apply.google import GoogleHand
from gpuyard.provision.apply.kubectl import KubectlHand
from gpuyard.provision.artefact import Artefact

NOW_S = 1_794_800_000.0
CLIENT_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickClock:
    """A time that stands; waiting takes next to none."""

    now: float = NOW_S

    def now_s(self) -> float:
        return self.now

    def sleep(self, span_s: float) -> None:
        time.sleep(min(span_s, 0.001))


def hand(url: str) -> GoogleHand:
    """Calls to the fake."""
    return GoogleHand(endpoint=LocalEndpoint(base=url, timeout_s=CLIENT_S), clock=QuickClock())


@contextmanager
def work(folder: Path, url: str, artefacts: Sequence[Artefact], label: str, context: str = "") -> Iterator[Work]:
    """Work with a journal in a folder."""
    steps, _ = plan_calls(artefacts, context)
    journal = Journal.open(folder / "apply.jsonl")
    try:
        yield Work(
            hash=label,
            label=label,
            steps=steps,
            journal=journal,
            calls=hand(url),
            manifests=KubectlHand(folder=folder),
            clock=QuickClock(),
            tell=lambda _: None,
        )
    finally:
        journal.close()
