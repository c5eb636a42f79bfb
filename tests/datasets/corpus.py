"""Real text for tests: docstrings of Python's own modules, and edited copies of them."""

from __future__ import annotations

import functools
import importlib
import random
import re

MODULES = (
    "argparse", "ast", "bisect", "calendar", "collections", "concurrent.futures", "configparser", "contextlib", "csv",
    "datetime", "decimal", "difflib", "dis", "doctest", "email.message", "enum", "fractions", "functools", "glob",
    "heapq", "http.client", "imaplib", "inspect", "io", "ipaddress", "itertools", "json", "locale", "logging", "mailbox",
    "multiprocessing", "optparse", "os", "pathlib", "pdb", "pickle", "platform", "pprint", "queue", "random", "re",
    "sched", "selectors", "shutil", "smtplib", "socket", "sqlite3", "statistics", "string", "subprocess", "tarfile",
    "tempfile", "textwrap", "threading", "timeit", "traceback", "unittest", "urllib.request", "uuid",
    "xml.dom.minidom", "zipfile",
)  # fmt: skip


@functools.cache
def documents(least: int = 300) -> tuple[str, ...]:
    """Return distinct docstrings of at least `least` characters, sorted."""
    texts = set()
    for name in MODULES:
        module = importlib.import_module(name)
        for value in (module, *vars(module).values()):
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and len(text) >= least:
                texts.add(text)
    return tuple(sorted(texts))


def edited(text: str, part: float, seed: int) -> str:
    """Return the text with a fraction of words replaced, dropped or doubled, and other spacing."""
    draw = random.Random(seed)
    words = []
    for word in text.split():
        if draw.random() >= part:
            words.append(word)
        elif (kind := draw.random()) < 0.4:
            words.append(f"changed{draw.randrange(1000)}")
        elif kind < 0.7:
            words += [word, word]
    return "  ".join(word.upper() if index % 7 == 0 else word for index, word in enumerate(words))


def shingles(text: str, width: int = 5) -> set[tuple[str, ...]]:
    """Return the shingles of a text: the reference implementation."""
    words = re.findall(r"\w+", text.lower())
    return (
        {tuple(words[at : at + width]) for at in range(max(len(words) - width + 1, 1))}
        if words
        else set()
    )


def jaccard(first: str, second: str, width: int = 5) -> float:
    """Return the similarity of two texts: the reference implementation."""
    one, other = shingles(first, width), shingles(second, width)
    return len(one & other) / len(one | other) if one | other else 0.0
