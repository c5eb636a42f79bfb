"""A served model: its active version, and the canary that gets a share of its requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.serving.completions import LanguageVersion
from gpuyard.serving.proxied_model import ProxiedVersion
from gpuyard.serving.shadow import Shadow
from gpuyard.serving.spec import CanarySpec, ServedModel
from gpuyard.serving.version import Version
from gpuyard.serving.version_metrics import MetricsSnapshot

Generating = LanguageVersion | ProxiedVersion  # language models, here or in an engine
Served = Version | Generating


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCanary:
    """A canary, and the counts that it is compared with."""

    version: Version
    spec: CanarySpec
    start: MetricsSnapshot  # of the active version, when the canary was loaded


class ModelSlot:
    """A served model with its active version and its canary."""

    __slots__ = ("active", "canary", "credit", "mount", "shadow")

    def __init__(self, mount: ServedModel, active: Served) -> None:
        self.mount = mount
        self.active = active
        self.canary: LoadedCanary | None = None
        self.shadow: Shadow | None = None
        self.credit = 0.0

    def choose(self) -> Served:
        """Return the version for the next request.

        Credit accumulates by the canary's share, so the share is exact and not random.
        """
        if self.canary is None:
            return self.active
        self.credit += self.canary.spec.share_ratio
        if self.credit < 1:
            return self.active
        self.credit -= 1
        return self.canary.version

    def versions(self) -> Iterator[Served]:
        """Yield the active version and the canary."""
        yield self.active
        if self.canary is not None:
            yield self.canary.version
