"""The table of steps: adding a step is adding a field here, and its fitted parts below."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets.images import Images, Pixels, Readable
from gpuyard.datasets.step import Fitted, StepSettings
from gpuyard.datasets.steps.casts import Cast, Converted, Dates, Fits
from gpuyard.datasets.steps.clip import Clip, Clipped
from gpuyard.datasets.steps.dates import DateParts
from gpuyard.datasets.steps.derive import Bucketed, Bucketise, Drop, Polynomial
from gpuyard.datasets.steps.encode import Hash, Hashed, OneHot, OneHotted, Ordered, Ordinal
from gpuyard.datasets.steps.impute import FillGroup, FillGroupTexts, FillNumbers, FillTexts, Impute
from gpuyard.datasets.steps.power import Power, Powered
from gpuyard.datasets.steps.ranks import QuantileMap, Ranked, UnitLength
from gpuyard.datasets.steps.rows import Deduplicate, DropNulls, Filter
from gpuyard.datasets.steps.scale import Affine, MinMax, Robust, ZScore
from gpuyard.datasets.steps.strings import Strings
from gpuyard.datasets.steps.target import Target, TargetMeans
from gpuyard.datasets.text.steps import HashWords, NearDuplicates, TermWeights, Tfidf
from gpuyard.datasets.text.tokenise import Tokenise, Tokens
from gpuyard.errors import InputError, one_of

__all__ = ["PARTS", "Step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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
    target: Target | None = None
    bucketise: Bucketise | None = None
    polynomial: Polynomial | None = None
    date_parts: DateParts | None = None
    drop: Drop | None = None
    near_duplicates: NearDuplicates | None = None
    hash_words: HashWords | None = None
    tfidf: Tfidf | None = None
    tokenise: Tokenise | None = None
    images: Images | None = None

    def at(self, base: Path) -> Step:
        """The step with the files that it names spelt out; relative ones start from `base`."""
        return self if self.tokenise is None else dataclasses.replace(self, tokenise=self.tokenise.at(base))

    def chosen(self, where: str) -> tuple[str, StepSettings]:
        """The step's name and settings; InputError when none or two are named."""
        named = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]
        if len(named) == 1:
            settings: StepSettings = getattr(self, named[0])
            return named[0], settings
        if named:
            raise InputError.one(where, f"two steps in one: {' and '.join(named)}", "write each as an item of its own")
        names = [field.name for field in dataclasses.fields(self)]
        raise InputError.one(where, "no step", f"use {one_of(names, limit=40)}")


# What steps become once they are fitted, by the names that saved transforms use.
PARTS: dict[str, type[Fitted]] = {
    part.__name__: part
    for part in (
        Affine, Bucketed, Clipped, Converted, DateParts, Deduplicate, Drop, DropNulls, FillGroup, FillGroupTexts,
        FillNumbers, FillTexts, Filter, Fits, Hashed, OneHotted, Ordered, Polynomial, Powered, Ranked, Strings,
        TargetMeans, UnitLength, NearDuplicates, HashWords, TermWeights, Tokens, Pixels, Readable,
    )
}  # fmt: skip
