"""Shell text by construction: every inserted value becomes one word unless it is shell itself."""

from __future__ import annotations

import shlex
import string
from typing import Any
from urllib.parse import quote


class ShellText(str):
    """Text in the syntax of the shell; the type says that it needs no quotes."""

    __slots__ = ()


class _Quoting(string.Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion is not None:
            raise ValueError("a shell template takes no conversions")
        return value

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            raise ValueError("a shell template takes no format specifications")
        return value if isinstance(value, ShellText) else shlex.quote(str(value))


class _PercentEncoding(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            raise ValueError("a URL template takes no format specifications")
        return quote(str(value), safe="")


def shell(template: str, **values: object) -> ShellText:
    """Return a template with every value as one word: `shell("cat {file}", file=name)`.

    A field may read an attribute: `{settings.zone}`. A field inside double quotes is wrong, because
    it brings its own quotes; close them first. `{{` and `}}` are braces of the shell.
    """
    return ShellText(_Quoting().vformat(template, (), values))


def joined(separator: str, *parts: ShellText) -> ShellText:
    """Return shell text joined by a separator, itself in the syntax of the shell."""
    return ShellText(separator.join(parts))


def url(template: str, **values: object) -> str:
    """Return a URL with every value percent-encoded as one segment or parameter."""
    return _PercentEncoding().vformat(template, (), values)
