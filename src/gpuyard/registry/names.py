"""Names of models and aliases, and references to one version: NAME, NAME@ALIAS or NAME/NUMBER."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.errors import InputError

CHAMPION = "champion"
CHALLENGER = "challenger"
LATEST = "latest"
MAX_VERSION = (1 << 63) - 1  # SQLite's largest integer
_MAX_DIGITS = len(str(MAX_VERSION))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIX = (
    "start with a letter or digit; use letters, digits, dots, dashes and underscores, at most 100"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A version by number or alias; with neither, the champion, or the newest if there is none."""

    name: str
    version: int | None = None
    alias: str = ""

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.name}/{self.version}"
        return f"{self.name}@{self.alias}" if self.alias else self.name


def check_name(name: str) -> str:
    """Return the name if it is valid as a folder name on any system; raise InputError if not."""
    if not _NAME.fullmatch(name):
        raise InputError.one(f'model "{name}"', "is not a valid name", _FIX)
    return name


def check_alias(alias: str) -> str:
    """Return the alias if it is valid; `latest` and numbers are reserved."""
    if not _NAME.fullmatch(alias) or alias == LATEST or alias.isdigit():
        raise InputError.one(
            f'alias "{alias}"', "is not a valid alias", f"{_FIX}; no number, not `{LATEST}`"
        )
    return alias


def read_reference(text: str) -> Reference:
    """Parse `NAME`, `NAME@ALIAS` or `NAME/NUMBER`."""
    name, at, alias = text.partition("@")
    if at:
        return Reference(
            name=check_name(name), alias=alias if alias == LATEST else check_alias(alias)
        )
    name, slash, number = text.partition("/")
    if not slash:
        return Reference(name=check_name(name))
    # The length is checked before the conversion: Python refuses numbers of thousands of digits.
    digits = number if number.isascii() and number.isdigit() else ""
    if not digits or len(digits) > _MAX_DIGITS or not 1 <= int(digits) <= MAX_VERSION:
        raise InputError.one(
            f'model "{text[:200]}"',
            f'"{number[:40]}" is not a version',
            "write NAME/3 or NAME@champion",
        )
    return Reference(name=check_name(name), version=int(number))
