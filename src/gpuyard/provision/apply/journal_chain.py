"""The chain of MACs over a journal, so that no line can be changed, added, removed or moved.

Each line ends with a MAC over its own text and the MAC of the line before it. Removing the last
lines leaves a valid chain, so the newest MAC is also saved in the state directory, under the
journal's id: a chain without it lacks lines. It is saved after the line, so a crash between the
two leaves a chain that is one line longer, which is valid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.home import private_directory, write_atomic
from gpuyard.provision.apply.signing import SigningKey

PURPOSE = "journal line"
HEADS = "journals"
_LINE = re.compile(r'(\{.*),"mac":"([0-9a-f]{64})"\}')
_ID = re.compile(r"[0-9a-f]{32}")
_FIX = (
    "restore the file, or delete its resources by label with `gpuyard sweep` "
    "and render into another folder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One verified line."""

    body: Annotated[str, Doc("JSON of the entry, without its MAC")]
    mac: str


def chained_line(body: str, previous: str, key: SigningKey) -> tuple[str, ChainLink]:
    """Return the line of an entry, given its JSON and the MAC of the line before it."""
    mac = key.mac(PURPOSE, previous, body)
    return f'{body[:-1]},"mac":"{mac}"}}\n', ChainLink(body=body, mac=mac)


def verified_links(content: bytes, key: SigningKey, path: Path) -> tuple[ChainLink, ...]:
    """Return the lines of a journal; InputError names the first that its chain does not cover."""
    try:
        # Not splitlines(): an entry's text may hold other line separators.
        lines = content.decode().split("\n")[:-1]
    except UnicodeDecodeError:
        raise InputError.one(str(path), "is not text", _FIX) from None
    links: list[ChainLink] = []
    previous = ""
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        body = f"{match[1]}}}" if match else ""
        if match is None or not key.matches(match[2], PURPOSE, previous, body):
            what = "was not written by apply or destroy of this user on this machine"
            raise InputError.one(f"{path}:{number}", what, _FIX)
        previous = match[2]
        links.append(ChainLink(body=body, mac=previous))
    return tuple(links)


def check_head(links: tuple[ChainLink, ...], journal: str, key: SigningKey, path: Path) -> None:
    """Raise InputError if the last lines of a journal were removed."""
    head = _head_file(journal, key)
    if head is None or not head.exists():
        return
    newest = head.read_text(encoding="utf-8").strip()
    if newest and newest not in {link.mac for link in links}:
        raise InputError.one(str(path), "lacks its last lines", _FIX)


def save_head(mac: str, journal: str, key: SigningKey) -> None:
    """Remember the newest MAC of a journal."""
    head = _head_file(journal, key)
    if head is not None:
        private_directory(head.parent)
        write_atomic(head, f"{mac}\n")


def _head_file(journal: str, key: SigningKey) -> Path | None:
    return key.folder / HEADS / journal if _ID.fullmatch(journal) else None
