"""What models and aliases may be called, and how one version is named: NAME, NAME@ALIAS or NAME/NUMBER."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuyard.errors import InputError

__all__ = ["CHALLENGER", "CHAMPION", "LATEST", "Reference", "check_alias", "check_name", "read_reference"]

CHAMPION, CHALLENGER, LATEST = "champion", "challenger", "latest"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FIX = "use letters, digits, dots, dashes and underscores, at most 100, a letter or digit first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A model by number or by alias; with neither, its champion, or the newest where there is none."""

    name: str
    version: int | None = None
    alias: str = ""

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.name}/{self.version}"
        return f"{self.name}@{self.alias}" if self.alias else self.name


def check_name(name: str) -> str:
    """The name of a model, if it can be a folder's on any system."""
    if not _NAME.fullmatch(name):
        raise InputError.one(f'model "{name}"', "is not a name", _FIX)
    return name


def check_alias(alias: str) -> str:
    """The alias, if it is one; `latest` and numbers have a meaning of their own."""
    if not _NAME.fullmatch(alias) or alias == LATEST or alias.isdigit():
        raise InputError.one(f'alias "{alias}"', "is not an alias", f"{_FIX}; not a number, not `{LATEST}`")
    return alias


def read_reference(text: str) -> Reference:
    """The version that `NAME`, `NAME@ALIAS` or `NAME/NUMBER` names."""
    name, at, alias = text.partition("@")
    if at:
        return Reference(name=check_name(name), alias=alias if alias == LATEST else check_alias(alias))
    name, slash, number = text.partition("/")
    if not slash:
        return Reference(name=check_name(name))
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise InputError.one(f'model "{text}"', f'"{number}" is not a version', "write NAME/3 or NAME@champion")
    return Reference(name=check_name(name), version=int(number))
