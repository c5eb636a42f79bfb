"""Sources in which a file is a row: a document, an image. Many small files become one staged file."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from gpuyard.datasets.images import image_frame
from gpuyard.datasets.source.files import Found, open_bytes
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError

__all__ = ["QUARANTINE", "TEXTS", "row_files"]

TEXTS = pl.Schema({"path": pl.String(), "text": pl.String()})
QUARANTINE = pl.Schema({"file": pl.String(), "reason": pl.String(), "raw": pl.String()})
_SHOWN = 200  # bytes of a bad file that are kept to recognise it by


def row_files(found: Found, read: ReadSpec, chunk_bytes: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Rows and what is no row, with the reason, of about so many bytes at a time."""
    files: list[tuple[str, bytes]] = []
    bad: list[tuple[str, str, str]] = []
    size = 0
    for path in found.paths:
        try:
            with open_bytes(path) as stream:
                contents = stream.read()
        except InputError as error:  # a corrupt archive is one bad row, not the end
            bad.append((path, error.problems[0].what, ""))
            continue
        files.append((path, contents))
        size += len(contents)
        if size >= chunk_bytes:
            yield _frames(files, bad, found.format, read)
            files, bad, size = [], [], 0
    if files or bad:
        yield _frames(files, bad, found.format, read)


def _frames(
    files: list[tuple[str, bytes]], bad: list[tuple[str, str, str]], form: str, read: ReadSpec
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of some files."""
    if form == "images":
        return image_frame(files), pl.DataFrame(bad, schema=QUARANTINE, orient="row")
    texts = []
    for path, contents in files:
        text, reason = document(contents, read.encoding)
        if reason:
            bad.append((path, reason, contents[:_SHOWN].decode("latin-1")))
        else:
            texts.append((path, text))
    return pl.DataFrame(texts, schema=TEXTS, orient="row"), pl.DataFrame(bad, schema=QUARANTINE, orient="row")


def document(contents: bytes, encoding: str = "utf-8") -> tuple[str, str]:
    """The text of a file and nothing, or nothing and why it is no text."""
    try:
        text = contents.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        at = f"byte 0x{contents[error.start]:02x} at {error.start}" if error.start < len(contents) else error.reason
        return "", f"not {encoding} text ({at})"
    if "\0" in text:
        return "", f"not text: a zero character at {text.index(chr(0))}"
    return text, ""
