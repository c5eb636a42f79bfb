"""Real text for tests: the documentation that Python's own modules carry, and copies of it with edits."""

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
    """Distinct documentation texts of at least so many characters, in order."""
    found = set()
    for name in MODULES:
        module = importlib.import_module(name)
        for value in (module, *vars(module).values()):
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and len(text) >= least:
                found.add(text)
    return tuple(sorted(found))


def edited(text: str, part: float, seed: int) -> str:
    """The text with that part of its words replaced, taken out or doubled, in other case and spacing."""
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
    """The shingles of a text by Python's own means, to compare with."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + width]) for at in range(max(len(words) - width + 1, 1))} if words else set()


def jaccard(first: str, second: str, width: int = 5) -> float:
    """The similarity of two texts by Python's own means."""
    one, other = shingles(first, width), shingles(second, width)
    return len(one & other) / len(one | other) if one | other else 0.0
