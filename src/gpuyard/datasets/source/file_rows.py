"""Sources in which a file is a row: documents and images, staged many to a file."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from gpuyard.datasets.images import image_frame
from gpuyard.datasets.source.files import SourceFiles, open_bytes
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError

TEXTS = pl.Schema({"path": pl.String(), "text": pl.String()})
QUARANTINE = pl.Schema({"file": pl.String(), "reason": pl.String(), "raw": pl.String()})
_EXCERPT_BYTES = 200  # of a bad file, saved in the quarantine


def row_files(
    files: SourceFiles, read: ReadSpec, chunk_bytes: int
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield rows and quarantined rows, about `chunk_bytes` at a time."""
    contents: list[tuple[str, bytes]] = []
    bad: list[tuple[str, str, str]] = []
    size_bytes = 0
    for path in files.paths:
        try:
            with open_bytes(path) as stream:
                data = stream.read()
        except InputError as error:  # a corrupt archive is one bad row
            bad.append((path, error.problems[0].what, ""))
            continue
        contents.append((path, data))
        size_bytes += len(data)
        if size_bytes >= chunk_bytes:
            yield _frames(contents, bad, files.format, read)
            contents, bad, size_bytes = [], [], 0
    if contents or bad:
        yield _frames(contents, bad, files.format, read)


def _frames(
    files: list[tuple[str, bytes]],
    bad: list[tuple[str, str, str]],
    file_format: str,
    read: ReadSpec,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    if file_format == "images":
        return image_frame(files), pl.DataFrame(bad, schema=QUARANTINE, orient="row")
    texts = []
    for path, contents in files:
        text, reason = decode_document(contents, read.encoding)
        if reason:
            bad.append((path, reason, contents[:_EXCERPT_BYTES].decode("latin-1")))
        else:
            texts.append((path, text))
    rows = pl.DataFrame(texts, schema=TEXTS, orient="row")
    return rows, pl.DataFrame(bad, schema=QUARANTINE, orient="row")


def decode_document(contents: bytes, encoding: str = "utf-8") -> tuple[str, str]:
    """Return the text of a file and "", or "" and the reason why it is not text."""
    try:
        text = contents.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        detail = error.reason
        if error.start < len(contents):
            detail = f"byte 0x{contents[error.start]:02x} at {error.start}"
        return "", f"not {encoding} text ({detail})"
    if "\0" in text:
        return "", f"not text: a null character at {text.index(chr(0))}"
    return text, ""
