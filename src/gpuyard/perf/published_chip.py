"""Chip names of published tables in one spelling, whatever vendor and board words they carry."""

from __future__ import annotations

import re

# Words that several chips share.
VENDOR = re.compile(
    r"\b(NVIDIA|AMD|Intel|Google|Cloud|AWS|Amazon|Instinct|Radeon|Tesla|GPUs?|accelerators?"
    r"|Tensor Core|Blackwell Ultra|Blackwell|Hopper|Ampere|Server Edition)\b[ -]*",
    re.IGNORECASE,
)
COUNT = re.compile(r"^\d+ ?[x×] ?(?=[A-Za-z])")  # "8x B200"
MODEL_NUMBER = re.compile(r"^[A-Za-z]{1,3}\d+[a-z]?\b")  # "mi300x"
# Spellings of one chip: a pattern over the whole name, and the name that replaces the match.
SPELLINGS = (
    (re.compile(r"^(TPU[ -]?)?(v?7x?|Ironwood)\b", re.IGNORECASE), "TPU7x"),
    (re.compile(r"^(TPU[ -]?)?(v6e|v6|Trillium)\b", re.IGNORECASE), "TPU v6e"),
    (re.compile(r"^(TPU[ -]?)?(v5e|v5 ?lite(pod)?)\b", re.IGNORECASE), "TPU v5e"),
    (re.compile(r"^(TPU[ -]?)?v(4|5p)\b", re.IGNORECASE), r"TPU v\2"),
    (re.compile(r"^TPU-(?=v)", re.IGNORECASE), "TPU "),
    (re.compile(r"^(Trainium|trn)[ -]?([23])n?\b.*", re.IGNORECASE), r"Trainium\2"),
    (re.compile(r"^(Trainium|trn)([ -]?1)?n?\b(?! ?\d)", re.IGNORECASE), "Trainium1"),
    (re.compile(r"^(Inferentia|inf)[ -]?2\b", re.IGNORECASE), "Inferentia2"),
    (re.compile(r"^(Vera[ -]?)?(Rubin|VR200|R200)\b", re.IGNORECASE), "Rubin"),
    (re.compile(r"^RTX[ -]?PRO[ -]?(\d{4})", re.IGNORECASE), r"RTX-PRO-\1"),
    (re.compile(r"^Arc[ -]Pro[ -](B\d\d)", re.IGNORECASE), r"Arc-Pro-\1"),
)


def published_chip(text: str) -> str:
    """Return a chip's name as the patterns of chips expect it: `H100-SXM-80GB`, `TPU v6e`."""
    name, bracket, rest = COUNT.sub("", VENDOR.sub("", text.strip())).partition("(")
    name = name.strip()
    if not name or "+" in name:  # a vendor alone, or several chips
        return text.strip()
    for pattern, spelling in SPELLINGS:
        if pattern.search(name):
            name = pattern.sub(spelling, name)
            break
    else:
        name = re.sub(r" (?=\w)", "-", name)
        name = MODEL_NUMBER.sub(lambda match: match[0].upper(), name)
    return f"{name} ({rest}" if bracket else name
