"""Text normalisation: Unicode form, white space, case."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind
from gpuyard.datasets.step import ColumnStep, Operation, StatelessStep
from gpuyard.document.field_types import Doc

# Unicode's White_Space, written out: \s differs between Rust and Python in four control characters.
_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACES = re.compile(_SPACE + "+")
_NULLS = ("null", "none", "nan", "n/a", "na", "-", "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings(ColumnStep, StatelessStep):
    """Normalise texts; an empty text becomes null."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("text",)
    columns: ColumnNames = ("*",)
    unicode: Annotated[Literal["NFC", "NFKC", "NFD", "NFKD", "none"], Doc("the Unicode form")] = (
        "NFKC"
    )
    whitespace: Annotated[bool, Doc("strip, and collapse runs of white space to one space")] = True
    case: Annotated[Literal["keep", "lower", "upper"], Doc("the case of letters")] = "keep"
    missing: Annotated[bool, Doc("null, none, nan, n/a, na, - and ? become null too")] = False

    def expressions(self) -> tuple[pl.Expr, ...]:
        return tuple(self._expression(pl.col(name).cast(pl.String)) for name in self.columns)

    def _expression(self, text: pl.Expr) -> pl.Expr:
        if self.unicode != "none":
            text = text.str.normalize(self.unicode)
        if self.whitespace:
            text = text.str.replace_all(_SPACE + "+", " ").str.strip_chars(" ")
        if self.case == "lower":
            text = text.str.to_lowercase()
        elif self.case == "upper":
            text = text.str.to_uppercase()
        is_null = text == ""
        if self.missing:
            is_null = text.str.to_lowercase().is_in(_NULLS) | is_null
        return pl.when(is_null.not_()).then(text)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.columns, "String"))

    def numpy_operation(self, slots: Slots) -> Operation:
        names = [slots.text(name) for name in self.columns]

        def run(batch: RowBatch) -> None:
            for name in names:
                batch.texts[name] = [
                    None if text is None else self.text(text) for text in batch.texts[name]
                ]

        return run

    def text(self, text: str) -> str | None:
        """Return a normalised text, None where nothing is left."""
        if self.unicode != "none":
            text = unicodedata.normalize(cast(Literal["NFC"], self.unicode), text)
        if self.whitespace:
            text = _SPACES.sub(" ", text).strip(" ")
        if self.case == "lower":
            text = text.lower()
        elif self.case == "upper":
            text = text.upper()
        return None if not text or (self.missing and text.lower() in _NULLS) else text
