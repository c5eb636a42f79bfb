"""Shell lines made of words, quoted by construction: no name can add a command."""

from __future__ import annotations

import shlex


class ShellWord(str):
    """A word in the syntax of the shell, such as `$HEAD`; the type says that it needs no quotes."""

    __slots__ = ()


def command_line(*words: object) -> str:
    """Return a line that the shell splits into exactly these words."""
    return " ".join(
        str(word) if isinstance(word, ShellWord) else shlex.quote(str(word)) for word in words
    )
