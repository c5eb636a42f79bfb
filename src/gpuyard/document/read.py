"""Parse YAML, TOML and JSON text to a Document; malformed text is an InputError with its line."""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import yaml

from gpuyard.document.tree import Document, Mapping, Node, Scalar, Sequence, SourceLocation
from gpuyard.errors import ExternalError, InputError, Problem

MAX_BYTES = 16 * 1024 * 1024  # a workload or catalog file has kilobytes
MAX_NODES = 100_000  # of YAML, with aliases expanded
MAX_JSON_NODES = 1_000_000
JSON_BYTES_PER_NODE = 8  # the larger files that we write hold at least as many
MAX_DEPTH = 60  # no real file is deeper; reached before Python's recursion limit
MAX_PATH_CHARS = 250  # of a value's key path, which every value below a long key repeats

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9](_?[0-9])*|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9](_?[0-9])*(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
}
_YAML_1_1: tuple[tuple[str, bool | None], ...] = (
    *(("y", True), ("yes", True), ("on", True), ("true", True)),
    *(("n", False), ("no", False), ("off", False), ("false", False), ("null", None)),
)
_YAML_1_1_WORDS = {
    spelling: meaning
    for word, meaning in _YAML_1_1
    for spelling in (word, word.capitalize(), word.upper())
}
_FIX_SYNTAX = "fix the syntax error"
_FLATTEN = "reduce the nesting"
_SPLIT = "split the file"
_CHUNK_BYTES = 1 << 20
T = TypeVar("T")


def read_file(path: Path) -> Document:
    """Parse a file in the format of its suffix: .toml, .json, otherwise YAML."""
    reader = {".toml": read_toml, ".json": read_json}.get(path.suffix, read_yaml)
    return reader(read_text(path), str(path))


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file; raise InputError if it is missing, not UTF-8 or too large."""
    try:
        data = _read_bytes(path, max_bytes)
        if len(data) > max_bytes:
            raise InputError.one(
                str(path),
                f"larger than {max_bytes >> 20} MiB",
                "check that it is the right file, and not one with data",
            )
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise InputError.one(str(path), "no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError.one(str(path), "is a folder", "give a file inside the folder") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError.one(
            f"{path}:{line}", f"not UTF-8 text (byte {error.start})", "save it as UTF-8"
        ) from None
    except OSError as error:
        raise ExternalError(
            str(path), error.strerror or str(error), "make the file readable"
        ) from None


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return at most one byte more than allowed: the size of a device or a pipe is not known."""
    chunks, size_bytes = [], 0
    with path.open("rb") as file:
        while size_bytes <= max_bytes:
            chunk = file.read(min(_CHUNK_BYTES, max_bytes + 1 - size_bytes))
            if not chunk:
                break
            chunks.append(chunk)
            size_bytes += len(chunk)
    return b"".join(chunks)


def read_yaml(text: str, file: str) -> Document:
    """Parse one document with YAML 1.2 scalars (`no` and `on` are text) and unique keys."""
    root = _compose(text, file, yaml.compose)
    if root is None:
        raise InputError.one(
            f"{file}:1", "the file is empty", "start from one that `gpuyard init` writes"
        )
    return Document(file=file, root=_YamlTree(file).node(root, "", 0))


def read_yaml_stream(text: str, file: str) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Parse a stream of documents as Kubernetes tools do, and return its duplicate keys as well.

    `yes` and `on` are true, empty documents are skipped, and the last of duplicate keys wins.
    """

    def compose(text: str, Loader: type) -> list[yaml.Node]:  # noqa: N803 (PyYAML's name)
        return list(yaml.compose_all(text, Loader=Loader))

    roots = [
        root
        for root in _compose(text, file, compose)
        if not (isinstance(root, yaml.ScalarNode) and not root.value)
    ]
    duplicates: list[Problem] = []
    trees = [_YamlTree(file, _YAML_1_1_WORDS, duplicates).node(root, "", 0) for root in roots]
    return tuple(Document(file=file, root=tree) for tree in trees), tuple(duplicates)


def _compose(text: str, file: str, compose: Callable[..., T]) -> T:
    try:
        _check_size(text, file)
        return compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        what = f"not YAML: control character #x{error.character:02x}"
        where = _line_of(text, error.character, file)
        raise InputError.one(where, what, "remove the character") from None
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    except (ValueError, RecursionError) as error:  # PyYAML raises these for a bad escape
        what = f"not YAML: {str(error).splitlines()[0]}"
        raise InputError.one(file, what, _FIX_SYNTAX) from None


def _syntax_error(error: yaml.YAMLError, text: str, file: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    if what.startswith("but "):  # the second half of PyYAML's sentence
        what = f"{getattr(error, 'context', '')}, {what}"
    if mark is None:
        return InputError.one(file, f"not YAML: {what}", _FIX_SYNTAX)
    number = min(mark.line, text.count("\n"))
    tab = text.split("\n")[number].lstrip(" ").startswith("\t")
    fix = "indent with spaces, not with a tab" if tab else _FIX_SYNTAX
    return InputError.one(f"{file}:{number + 1}", f"not YAML: {what}", fix)


# Composing a very deep file would exhaust the stack of the C loader, and composing millions of
# values the memory: count its events first.
def _check_size(text: str, file: str) -> None:
    depth, count = 0, 0
    for event in yaml.parse(text, Loader=_Loader):
        count += isinstance(event, yaml.NodeEvent)
        if count > 2 * MAX_NODES:  # keys are nodes too
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise InputError.one(f"{file}:{line}", f"more than {MAX_NODES:,} values", _SPLIT)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise InputError.one(f"{file}:{line}", "nested too deep", _FLATTEN)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_of(text: str, character: int, file: str) -> str:
    return f"{file}:{text[: max(0, text.find(chr(character)))].count(chr(10)) + 1}"


class _YamlTree:
    def __init__(
        self,
        file: str,
        words: dict[str, bool | None] | None = None,
        duplicates: list[Problem] | None = None,
    ) -> None:
        self.file = file
        self.constants = _CONSTANTS | (words or {})
        self.duplicates = duplicates  # collects duplicate keys; None: they are an error
        self.count = 0

    def node(self, raw: yaml.Node, path: str, depth: int) -> Node:
        location = SourceLocation(file=self.file, line=raw.start_mark.line + 1, path=path)
        self.count += 1
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            start = path if len(path) <= 40 else f"{path[:39]}…"
            here = SourceLocation(file=self.file, line=location.line, path=start)
            raise InputError([here.problem("nested too deep, or a recursive alias", _FLATTEN)])
        if isinstance(raw, yaml.ScalarNode):
            return Scalar(location=location, text=raw.value, value=_yaml_value(raw, self.constants))
        if isinstance(raw, yaml.SequenceNode):
            items = tuple(
                self.node(item, _path(f"{path}[{index}]"), depth + 1)
                for index, item in enumerate(raw.value)
            )
            return Sequence(location=location, items=items)
        return self.mapping(raw, location, path, depth)

    def mapping(self, raw: yaml.Node, location: SourceLocation, path: str, depth: int) -> Mapping:
        items: dict[str, tuple[SourceLocation, Node]] = {}
        for key_node, value_node in raw.value:
            line = key_node.start_mark.line + 1
            key_location = SourceLocation(file=self.file, line=line, path=path)
            if not isinstance(key_node, yaml.ScalarNode):
                raise InputError(
                    [key_location.problem("a key must be text", "write `name: value`")]
                )
            key = key_node.value
            here = SourceLocation(
                file=self.file, line=line, path=_path(f"{path}.{key}" if path else key)
            )
            if key in items:
                first = items.pop(key)[0].line
                problem = here.problem(f"duplicate key (first on line {first})", "keep one of them")
                if self.duplicates is None:
                    raise InputError([problem])
                self.duplicates.append(problem)
            items[key] = here, self.node(value_node, here.path, depth + 1)
        return Mapping(
            location=location,
            items=tuple((key, node) for key, (_, node) in items.items()),
            key_locations=tuple(here for here, _ in items.values()),
        )


def _yaml_value(
    raw: yaml.ScalarNode, constants: dict[str, bool | None]
) -> str | int | float | bool | datetime.date | None:
    """YAML 1.2 core schema, with dates."""
    text: str = raw.value
    if raw.style in ("'", '"', "|", ">"):
        return text
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
    if len(text) > 40:
        return text
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


def _date(text: str) -> datetime.date | str:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return text


def read_toml(text: str, file: str) -> Document:
    """Parse TOML; locations have no lines because tomllib does not report them."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise InputError.one(file, "nested too deep", _FLATTEN) from None
    except ValueError as error:  # also an integer of thousands of digits
        raise InputError.one(file, f"not TOML: {error}", _FIX_SYNTAX) from None
    return Document(file=file, root=_NativeTree(file, MAX_NODES).node(data, "", 0))


def read_json(text: str, file: str) -> Document:
    """Parse JSON; locations have no lines."""
    most = max(MAX_JSON_NODES, len(text) // JSON_BYTES_PER_NODE)
    return Document(file=file, root=_NativeTree(file, most).node(parse_json(text, file), "", 0))


def read_plain(tree: object, file: str) -> Document:
    """Make a document of Python values: dicts, lists and scalars; locations have no lines."""
    return Document(file=file, root=_NativeTree(file, MAX_NODES).node(tree, "", 0))


def parse_json(text: str, file: str) -> object:
    """Return parsed JSON (RFC 8259: no NaN, no Infinity); raise InputError with the line."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"{file}:{error.lineno}"
        raise InputError.one(where, f"not JSON: {error.msg}", _FIX_SYNTAX) from None
    except RecursionError:
        raise InputError.one(file, "nested too deep", _FLATTEN) from None
    except ValueError as error:
        raise InputError.one(file, f"not JSON: {error}", _FIX_SYNTAX) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number of 64 bits")
    return value


class _NativeTree:
    def __init__(self, file: str, max_nodes: int) -> None:
        self.file = file
        self.max_nodes = max_nodes
        self.count = 0

    def node(self, data: object, path: str, depth: int) -> Node:
        location = SourceLocation(file=self.file, line=None, path=path)
        self.count += 1
        if depth > MAX_DEPTH:
            raise InputError([location.problem("nested too deep", _FLATTEN)])
        if self.count > self.max_nodes:
            raise InputError([location.problem(f"more than {self.max_nodes:,} values", _SPLIT)])
        if isinstance(data, dict):
            keys = tuple(str(key) for key in data)
            paths = tuple(_path(f"{path}.{key}" if path else key) for key in keys)
            return Mapping(
                location=location,
                items=tuple(
                    (key, self.node(value, at, depth + 1))
                    for key, at, value in zip(keys, paths, data.values(), strict=True)
                ),
                key_locations=tuple(
                    SourceLocation(file=self.file, line=None, path=at) for at in paths
                ),
            )
        if isinstance(data, list):
            items = tuple(
                self.node(item, _path(f"{path}[{index}]"), depth + 1)
                for index, item in enumerate(data)
            )
            return Sequence(location=location, items=items)
        if data is None or isinstance(data, bool | int | float | str | datetime.date):
            return Scalar(location=location, text=str(data), value=data)
        what = f"a {type(data).__name__} is not supported here"
        raise InputError([location.problem(what, "write a text, number or date")])


def _path(path: str) -> str:
    return path if len(path) <= MAX_PATH_CHARS else f"{path[: MAX_PATH_CHARS - 1]}…"
