"""`gpuyard examples`: the example workloads, from an installed package or from the repository."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.home import write_atomic

_COMMENTS = ("# ", "<!-- ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example: a workload or traffic file, and the files that belong to it."""

    name: str
    summary: str  # first comment of its file
    file: str  # the file to give to a command, relative to the folder of the examples
    files: tuple[str, ...]


def examples() -> tuple[Example, ...]:
    """Return every example, by name."""
    folder = _folder()
    groups: dict[str, list[str]] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            groups[entry.name] = [
                f"{entry.name}/{file.name}" for file in entry.iterdir() if file.is_file()
            ]
        else:
            groups.setdefault(entry.name.rpartition(".")[0], []).append(entry.name)
    return tuple(_example(folder, name, sorted(groups[name])) for name in sorted(groups))


def copy_examples(names: Sequence[str], target: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Copy examples into a folder; raise InputError rather than write over a file."""
    chosen = [example_named(name) for name in names] or examples()
    paths = {name: target / name for example in chosen for name in example.files}
    existing = [path for path in paths.values() if path.exists()]
    if existing and not force:
        raise InputError.one(
            str(existing[0]), "exists already", "choose another folder, or add --force"
        )
    for name, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (_folder() / name).read_bytes())
    return tuple(paths.values())


def example_named(name: str) -> Example:
    """Return an example by name; raise InputError for an unknown one."""
    by_name = {example.name: example for example in examples()}
    if name in by_name:
        return by_name[name]
    meant = closest_match(name, by_name)
    fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(tuple(by_name))}"
    raise InputError.one("example", f'no example named "{name}"', fix)


def example_text(example: Example, path: Path) -> str:
    """Return the text of an example's file, with its own path in place of the repository's."""
    text = (_folder() / example.file).read_text(encoding="utf-8")
    return text.replace(f"examples/{example.file}", str(path))


def _example(folder: Traversable, name: str, files: list[str]) -> Example:
    main = next((file for file in files if file.endswith((".yaml", ".cm", ".xml"))), files[0])
    lines = (folder / main).read_text(encoding="utf-8").splitlines()[:1]
    comment = next((prefix for prefix in _COMMENTS if lines and lines[0].startswith(prefix)), None)
    summary = lines[0].removeprefix(comment).removesuffix(" -->") if comment else ""
    return Example(name=name, summary=summary, file=main, files=tuple(files))


def _folder() -> Traversable:
    """The examples inside the installed package; those of the repository in a source tree."""
    installed = importlib.resources.files("gpuyard") / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "examples"
