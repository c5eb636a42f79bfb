"""In-process apply runs of artefacts against the fake cloud."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuyard.provision.apply.apply_run import ApplyRun
from gpuyard.provision.apply.calls import plan_calls
from gpuyard.provision.apply.google import GoogleClient
from gpuyard.provision.apply.journal import Journal
from gpuyard.provision.apply.kubectl import KubectlClient
from gpuyard.provision.apply.signing import created_key
from gpuyard.provision.apply.transport import LocalTransport
from gpuyard.provision.artefact import Artefact

NOW_S = 1_794_800_000.0
CLIENT_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickClock:
    """A fixed time, with almost no waiting."""

    now: float = NOW_S

    def now_s(self) -> float:
        return self.now

    def sleep(self, span_s: float) -> None:
        time.sleep(min(span_s, 0.001))


def google_client(url: str) -> GoogleClient:
    """Return a client of the fake cloud."""
    return GoogleClient(transport=LocalTransport(base=url, timeout_s=CLIENT_S), clock=QuickClock())


@contextmanager
def apply_run(
    folder: Path, url: str, artefacts: Sequence[Artefact], label: str, context: str = ""
) -> Iterator[ApplyRun]:
    """Yield an apply run with its journal in a folder."""
    steps, _ = plan_calls(artefacts, context)
    journal = Journal.open(folder / "apply.jsonl", created_key())
    try:
        yield ApplyRun(
            hash=label,
            plan_hash=label,
            steps=steps,
            journal=journal,
            google=google_client(url),
            kubectl=KubectlClient(),
            clock=QuickClock(),
            on_progress=lambda _: None,
        )
    finally:
        journal.close()
