"""YAML, TOML and JSON text to a Document; what is not well-formed is an InputError with its line."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import yaml

from gpuyard.document.tree import Document, Mapping, Node, Place, Scalar, Sequence
from gpuyard.errors import InputError, Problem, RefusedError

__all__ = ["read_file", "read_json", "read_text", "read_toml", "read_yaml", "read_yaml_stream"]

MAX_BYTES = 16 * 1024 * 1024  # a workload or catalog file is kilobytes; more is a wrong file
MAX_NODES = 100_000  # stops aliases that multiply
MAX_DEPTH = 60  # no spec is deeper; stops recursion before Python does

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9](_?[0-9])*|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9](_?[0-9])*(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_YAML_1_1: tuple[tuple[str, bool | None], ...] = (
    *(("y", True), ("yes", True), ("on", True), ("true", True)),
    *(("n", False), ("no", False), ("off", False), ("false", False), ("null", None)),
)
_YAML_1_1_WORDS = {
    spelling: meaning for word, meaning in _YAML_1_1 for spelling in (word, word.capitalize(), word.upper())
}
T = TypeVar("T")


def read_file(path: Path) -> Document:
    """The file as a Document; its suffix tells the format (.toml, .json, otherwise YAML)."""
    reader = {".toml": read_toml, ".json": read_json}.get(path.suffix, read_yaml)
    return reader(read_text(path), str(path))


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The file's text; InputError if it is not there, is no text, or is larger than its kind can be."""
    try:
        if path.stat().st_size > max_bytes:
            raise InputError.one(
                str(path), f"larger than {max_bytes >> 20} MiB", "give the workload or catalog file, not data"
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError.one(str(path), "no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError.one(str(path), "is a folder", "give a file inside it") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError.one(f"{path}:{line}", f"not UTF-8 text (byte {error.start})", "save it as UTF-8") from None
    except OSError as error:
        raise RefusedError(str(path), error.strerror or str(error), "make the file readable") from None


def read_yaml(text: str, file: str) -> Document:
    """YAML 1.2 scalars (`no` and `on` are words), one document, no duplicate keys."""
    root = _composed(text, file, yaml.compose)
    if root is None:
        raise InputError.one(f"{file}:1", "the file is empty", "start from one that `gpuyard init` writes")
    return Document(file=file, root=_YamlTree(file).node(root, "", 0))


def read_yaml_stream(text: str, file: str) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Every document of a stream as Kubernetes tools read it, and the keys that are given twice.

    `yes` and `on` are true, empty documents are left out, and of a key that is given twice the last counts.
    """
    roots = _composed(text, file, lambda text, Loader: list(yaml.compose_all(text, Loader=Loader))) or []  # noqa: N803
    full = (root for root in roots if not (isinstance(root, yaml.ScalarNode) and not root.value))
    twice: list[Problem] = []
    trees = [_YamlTree(file, _YAML_1_1_WORDS, twice).node(root, "", 0) for root in full]
    return tuple(Document(file=file, root=tree) for tree in trees), tuple(twice)


def _composed(text: str, file: str, compose: Callable[..., T]) -> T:
    """What PyYAML composes from the text; InputError where it cannot."""
    try:
        _refuse_depth(text, file)
        return compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        what = f"not YAML: character #x{error.character:02x} is not text"
        raise InputError.one(_line_of(text, error.character, file), what, "remove that character") from None
    except yaml.YAMLError as error:
        raise _syntax(error, text, file) from None
    except (ValueError, RecursionError) as error:  # PyYAML lets a bad escape or a deep nest escape as these
        raise InputError.one(file, f"not YAML: {str(error).splitlines()[0]}", "mend the syntax") from None


def _syntax(error: yaml.YAMLError, text: str, file: str) -> InputError:
    """What the parser stumbled on, and the line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    if what.startswith("but "):  # the second half of a sentence
        what = f"{getattr(error, 'context', '')}, {what}"
    if mark is None:
        return InputError.one(file, f"not YAML: {what}", "mend the syntax")
    number = min(mark.line, text.count("\n"))
    tab = text.split("\n")[number].lstrip(" ").startswith("\t")
    fix = "indent with spaces, not with a tab" if tab else "mend the syntax at that line"
    return InputError.one(f"{file}:{number + 1}", f"not YAML: {what}", fix)


def _refuse_depth(text: str, file: str) -> None:
    """Refuses a nest so deep that composing it would exhaust the stack of the C loader."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise InputError.one(f"{file}:{line}", "nested too deep", "write it out flat")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_of(text: str, character: int, file: str) -> str:
    """The line on which a character first stands."""
    return f"{file}:{text[: max(0, text.find(chr(character)))].count(chr(10)) + 1}"


class _YamlTree:
    """Turns PyYAML's nodes into ours."""

    def __init__(
        self, file: str, words: dict[str, bool | None] | None = None, twice: list[Problem] | None = None
    ) -> None:
        self.file = file
        self.words = words or {}
        self.twice = twice  # collects keys that are given twice; None: they are an error
        self.count = 0

    def node(self, raw: yaml.Node, path: str, depth: int) -> Node:
        """The tree below one PyYAML node."""
        place = Place(file=self.file, line=raw.start_mark.line + 1, path=path)
        self.count += 1
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            start = path if len(path) <= 40 else f"{path[:39]}…"
            here = Place(file=self.file, line=place.line, path=start)
            raise InputError([here.problem("nested too deep, or an alias that repeats itself", "write it out flat")])
        if isinstance(raw, yaml.ScalarNode):
            return Scalar(place=place, text=raw.value, value=_yaml_value(raw, self.words))
        if isinstance(raw, yaml.SequenceNode):
            items = tuple(self.node(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(raw.value))
            return Sequence(place=place, items=items)
        return self.mapping(raw, place, path, depth)

    def mapping(self, raw: yaml.Node, place: Place, path: str, depth: int) -> Mapping:
        """A mapping, its keys plain words and each of them once."""
        items: list[tuple[str, Node]] = []
        places: list[Place] = []
        seen: dict[str, int] = {}
        for key_node, value_node in raw.value:
            line = key_node.start_mark.line + 1
            key_place = Place(file=self.file, line=line, path=path)
            if not isinstance(key_node, yaml.ScalarNode):
                raise InputError([key_place.problem("a key must be a word", "write `name: value`")])
            key = key_node.value
            here = Place(file=self.file, line=line, path=f"{path}.{key}" if path else key)
            if key in seen:
                problem = here.problem(f"given twice (first on line {seen[key]})", "keep one of them")
                if self.twice is None:
                    raise InputError([problem])
                self.twice.append(problem)
                first = [name for name, _ in items].index(key)
                del items[first], places[first]
            seen[key] = line
            places.append(here)
            items.append((key, self.node(value_node, here.path, depth + 1)))
        return Mapping(place=place, items=tuple(items), key_places=tuple(places))


def _yaml_value(raw: yaml.ScalarNode, words: dict[str, bool | None]) -> str | int | float | bool | datetime.date | None:
    """What a scalar means in the YAML 1.2 core schema, with dates; quoted text is text."""
    text: str = raw.value
    if raw.style in ("'", '"', "|", ">"):
        return text
    constants = _CONSTANTS | words
    if text in constants:
        return constants[text]
    if _INT.fullmatch(text):
        return _int(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _DATE.fullmatch(text):
        return _date(text)
    return text


def _int(text: str) -> int | str:
    """The integer; one of absurd length stays text."""
    if len(text) > 40:
        return text
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


def _date(text: str) -> datetime.date | str:
    """The date, or the text if there is no such day."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return text


def read_toml(text: str, file: str) -> Document:
    """A TOML file; the format's reader tells no lines, so places carry the path alone."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError.one(file, f"not TOML: {error}", "mend the syntax at that line") from None
    except RecursionError:
        raise InputError.one(file, "nested too deep", "write it out flat") from None
    return Document(file=file, root=_native(data, file, "", 0))


def read_json(text: str, file: str) -> Document:
    """A JSON file."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError.one(f"{file}:{error.lineno}", f"not JSON: {error.msg}", "mend the syntax there") from None
    except (RecursionError, ValueError) as error:
        raise InputError.one(file, f"not JSON: {error}", "mend the syntax") from None
    return Document(file=file, root=_native(data, file, "", 0))


def _native(data: object, file: str, path: str, depth: int) -> Node:
    """The tree of plain Python values."""
    place = Place(file=file, line=None, path=path)
    if depth > MAX_DEPTH:
        raise InputError([place.problem("nested too deep", "write it out flat")])
    if isinstance(data, dict):
        keys = tuple(str(key) for key in data)
        paths = tuple(f"{path}.{key}" if path else key for key in keys)
        return Mapping(
            place=place,
            items=tuple(
                (key, _native(value, file, at, depth + 1))
                for key, at, value in zip(keys, paths, data.values(), strict=True)
            ),
            key_places=tuple(Place(file=file, line=None, path=at) for at in paths),
        )
    if isinstance(data, list):
        items = tuple(_native(item, file, f"{path}[{index}]", depth + 1) for index, item in enumerate(data))
        return Sequence(place=place, items=items)
    if data is None or isinstance(data, bool | int | float | str | datetime.date):
        return Scalar(place=place, text=str(data), value=data)
    raise InputError([place.problem(f"a {type(data).__name__} is not used here", "write a text, number or date")])
