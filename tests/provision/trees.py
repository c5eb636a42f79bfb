"""Samples of artefacts, and changes to them: a path and the value that stands there instead."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.lint import LintResult, lint

SAMPLES = Path(__file__).parent / "samples"
GONE = "<gone>"  # a change that removes the key
Change = dict[str, Plain]


@functools.cache
def catalog() -> Catalog:
    """Return the catalog, loaded once."""
    return load_catalog()


def sample(name: str) -> Artefact:
    """Return a sample file."""
    return Artefact(name=name, text=(SAMPLES / name).read_text(encoding="utf-8"))


def changed(artefact: Artefact, change: Change) -> Artefact:
    """Return the artefact with changed values; `2:spec.x[0].y` is a path in document 2."""
    if artefact.name.endswith(".sbatch"):
        text = artefact.text
        for before, after in change.items():
            assert before in text, before
            text = text.replace(before, "" if after == GONE else str(after))
        return Artefact(name=artefact.name, text=text)
    documents = [tree for tree in yaml.safe_load_all(artefact.text) if tree is not None]
    for path, value in change.items():
        number, _, inner = path.rpartition(":") if re.match(r"\d+:", path) else ("1", "", path)
        put(documents[int(number) - 1], inner, value)
    if artefact.name.endswith(".json"):
        return Artefact(name=artefact.name, text=json.dumps(documents[0], indent=2))
    return Artefact(name=artefact.name, text=yaml.safe_dump_all(documents, sort_keys=False))


def put(tree: Plain, path: str, value: Plain) -> None:
    """Set a value in place; keys with dots are quoted: a."b.c/d".e[0]."""
    keys: list[str | int] = []
    for quoted, plain, index in re.findall(r'"([^"]+)"|([^."\[\]]+)|\[(\d+)\]', path):
        keys.append(int(index) if index else quoted or plain)
    for key, following in itertools.pairwise(keys):
        if isinstance(tree, list):
            assert isinstance(key, int)
            tree = tree[key]
        else:
            assert isinstance(tree, dict)
            assert isinstance(key, str)
            tree = tree.setdefault(key, [] if isinstance(following, int) else {})
    last = keys[-1]
    if value == GONE:
        del tree[last]  # type: ignore[arg-type, union-attr]
    elif isinstance(tree, list) and isinstance(last, int) and last == len(tree):
        tree.append(copy.deepcopy(value))
    else:
        tree[last] = copy.deepcopy(value)  # type: ignore[index, call-overload]


def check(*artefacts: Artefact, given: str = "") -> LintResult:
    """Lint the artefacts together."""
    return lint(artefacts, catalog(), given)


def rules(result: LintResult) -> set[str]:
    """Return the rules with an error or a warning."""
    return {finding.rule for finding in result.findings if finding.severity != "note"}


def leaves(
    tree: Plain, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Plain]]:
    """Yield every value of a tree with its path, containers included."""
    if path:
        yield path, tree
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield from leaves(child, (*path, key))
    elif isinstance(tree, list):
        for index, child in enumerate(tree):
            yield from leaves(child, (*path, index))
