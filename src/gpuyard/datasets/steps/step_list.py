"""List of steps: adding a step is its file, and one field of `StepSpec`."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuyard.datasets.images import Images
from gpuyard.datasets.step import Fitted, StepSettings
from gpuyard.datasets.steps.casts import Cast, Dates
from gpuyard.datasets.steps.clip import Clip
from gpuyard.datasets.steps.dates import DateParts
from gpuyard.datasets.steps.derive import Bucketise, Drop, Polynomial
from gpuyard.datasets.steps.encode import Hash, OneHot, Ordinal
from gpuyard.datasets.steps.impute import Impute
from gpuyard.datasets.steps.power import Power
from gpuyard.datasets.steps.python import Python
from gpuyard.datasets.steps.ranks import QuantileMap, UnitLength
from gpuyard.datasets.steps.rows import Deduplicate, DropNulls, Filter
from gpuyard.datasets.steps.scale import MinMax, Robust, ZScore
from gpuyard.datasets.steps.series import Differences, Lags, Rolling
from gpuyard.datasets.steps.strings import Strings
from gpuyard.datasets.steps.target import TargetEncode
from gpuyard.datasets.text.conversations import Conversations
from gpuyard.datasets.text.preferences import Preferences
from gpuyard.datasets.text.steps import HashWords, NearDuplicates, Tfidf
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.errors import InputError, choices_text


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step of the pipeline: exactly one of these."""

    drop_nulls: DropNulls | None = None
    impute: Impute | None = None
    deduplicate: Deduplicate | None = None
    filter: Filter | None = None
    cast: Cast | None = None
    dates: Dates | None = None
    clip: Clip | None = None
    strings: Strings | None = None
    zscore: ZScore | None = None
    minmax: MinMax | None = None
    robust: Robust | None = None
    power: Power | None = None
    unit_length: UnitLength | None = None
    quantile: QuantileMap | None = None
    onehot: OneHot | None = None
    ordinal: Ordinal | None = None
    hash: Hash | None = None
    target: TargetEncode | None = None
    bucketise: Bucketise | None = None
    polynomial: Polynomial | None = None
    date_parts: DateParts | None = None
    lags: Lags | None = None
    differences: Differences | None = None
    rolling: Rolling | None = None
    python: Python | None = None
    drop: Drop | None = None
    near_duplicates: NearDuplicates | None = None
    hash_words: HashWords | None = None
    tfidf: Tfidf | None = None
    tokenise: Tokenise | None = None
    conversations: Conversations | None = None
    preferences: Preferences | None = None
    images: Images | None = None

    def named_settings(self, where: str) -> tuple[str, StepSettings]:
        """Return the step's name and settings; raise InputError unless exactly one is set."""
        names = [field.name for field in dataclasses.fields(self)]
        present = [name for name in names if getattr(self, name) is not None]
        if not present:
            raise InputError.one(where, "no step", f"use {choices_text(names, limit=40)}")
        if len(present) > 1:
            what = f"two steps in one: {' and '.join(present)}"
            raise InputError.one(where, what, "write each as a separate item")
        settings: StepSettings = getattr(self, present[0])
        return present[0], settings

    def resolve_paths(self, base: Path) -> StepSpec:
        name, settings = self.named_settings("steps")
        return dataclasses.replace(self, **{name: settings.resolve_paths(base)})  # type: ignore[arg-type]


def _part_classes() -> list[type[Any]]:
    """Return the fitted parts of all steps; a step without PARTS is its own part."""
    steps = [typing.get_args(hint)[0] for hint in typing.get_type_hints(StepSpec).values()]
    return [part for step in steps for part in step.PARTS or (step,)]


# Classes of fitted parts by the names that saved transforms use.
PARTS: dict[str, type[Fitted]] = {part.__name__: part for part in _part_classes()}
# Names in transforms saved by version 0.1.
FORMER_PARTS = {
    "Bucketed": "FittedBuckets",
    "Clipped": "FittedClip",
    "Converted": "FittedCast",
    "Hashed": "FittedHash",
    "OneHotted": "FittedOneHot",
    "Ordered": "FittedOrdinal",
    "Powered": "FittedPower",
    "Ranked": "FittedQuantileMap",
    "Tokens": "TokenizerState",
}
