"""Texts in one form: Unicode, white space, case."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, cast

import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Operation, Unlearned
from gpuyard.document import Doc

__all__ = ["Strings"]

# Unicode's White_Space, spelt out: the \s of Rust and of Python differ in four control characters.
_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACES = re.compile(_SPACE + "+")
_NULLS = ("null", "none", "nan", "n/a", "na", "-", "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings(Unlearned):
    """Texts normalised; an empty text becomes null."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    unicode: Annotated[Literal["NFC", "NFKC", "NFD", "NFKD", "none"], Doc("the Unicode form")] = "NFKC"
    whitespace: Annotated[bool, Doc("one space for every run of white space, none at the ends")] = True
    case: Annotated[Literal["keep", "lower", "upper"], Doc("the case of letters")] = "keep"
    missing: Annotated[bool, Doc("empty, null, none, nan, n/a, na, - and ? become null")] = False

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, ("text",), where))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The normalised columns."""
        return tuple(self._expression(pl.col(name).cast(pl.String)) for name in self.columns)

    def _expression(self, text: pl.Expr) -> pl.Expr:
        """One column."""
        if self.unicode != "none":
            text = text.str.normalize(self.unicode)
        if self.whitespace:
            text = text.str.replace_all(_SPACE + "+", " ").str.strip_chars(" ")
        if self.case != "keep":
            text = text.str.to_lowercase() if self.case == "lower" else text.str.to_uppercase()
        gone = text.str.to_lowercase().is_in(_NULLS) | (text == "") if self.missing else text == ""
        return pl.when(gone.not_()).then(text)

    def after(self, columns: Columns) -> Columns:
        """The same."""
        return columns.changed(dict.fromkeys(self.columns, "String"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        names = [slots.text(name) for name in self.columns]

        def run(batch: Batch) -> None:
            """Normalises the rows."""
            for name in names:
                batch.texts[name] = [None if text is None else self.text(text) for text in batch.texts[name]]

        return run

    def text(self, text: str) -> str | None:
        """One text normalised, None where nothing is left."""
        if self.unicode != "none":
            text = unicodedata.normalize(cast(Literal["NFC"], self.unicode), text)
        if self.whitespace:
            text = _SPACES.sub(" ", text).strip(" ")
        if self.case != "keep":
            text = text.lower() if self.case == "lower" else text.upper()
        return None if not text or (self.missing and text.lower() in _NULLS) else text
