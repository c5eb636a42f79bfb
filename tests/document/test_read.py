"""Reading files: source locations, YAML 1.2 scalars, and errors for malformed text."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.document.read import (
    read_file,
    read_json,
    read_text,
    read_toml,
    read_yaml,
    read_yaml_stream,
)
from gpuyard.document.tree import Mapping, Scalar, Sequence
from gpuyard.errors import ExternalError, InputError


def scalar(text: str) -> object:
    root = read_yaml(f"key: {text}", "f.yaml").root
    assert isinstance(root, Mapping)
    node = root.get("key")
    assert isinstance(node, Scalar)
    return node.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("NO", "NO"),
        ("true", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("0x10", 16),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1:30", "1:30"),
        ("'12'", "12"),
        ("2026-08-21", datetime.date(2026, 8, 21)),
        ("2026-13-41", "2026-13-41"),
        ("80GB", "80GB"),
        (".5", 0.5),
        ("9" * 50, "9" * 50),
        ("1_", "1_"),
        ("-", [None]),
    ],
)
def test_yaml_scalars_follow_core_schema(text: str, value: object) -> None:
    if isinstance(value, list):
        root = read_yaml(f"key:\n{text}", "f.yaml").root
        assert isinstance(root, Mapping)
        assert isinstance(root.get("key"), Sequence)
    else:
        assert scalar(text) == value


def test_location_has_line_and_path() -> None:
    document = read_yaml("a:\n  b:\n    - 1\n    - c: 2\n", "f.yaml")
    assert str(document.location("a.b[1].c")) == "f.yaml:4: a.b[1].c"
    assert str(document.location("a.b[1].missing")) == "f.yaml:4: a.b[1].missing"
    assert str(document.location("elsewhere")) == "f.yaml:1: elsewhere"
    assert str(read_json('{"a": 1}', "f.json").location("a")) == "f.json: a"


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_yaml, "a: [1", "f:1: not YAML"),
        (read_yaml, "a: 1\na: 2", "f:2: a: duplicate key (first on line 1)"),
        (read_yaml, "? [1, 2]\n: 3", "f:1: a key must be text"),
        (read_yaml, "", "f:1: the file is empty"),
        (read_yaml, "a: 1\n---\nb: 2", "f:2: not YAML"),
        (read_yaml, "a: &x [*x]", "nested too deep"),
        (read_yaml, "[" * 200 + "]" * 200, "nested too deep"),
        (read_toml, "a = ", "f: not TOML"),
        (read_toml, "a = 12:30:00", "f: a: a time is not supported here"),
        (read_json, '{"a": }', "f:1: not JSON"),
        (read_json, "[" * 5000, "f: nested too deep"),
        (read_json, "[NaN]", "f: not JSON: NaN"),
        (read_toml, "a = " + "1" * 5000, "f: not TOML"),
    ],
)
def test_malformed_text_raises_input_error_with_line(reader, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as caught:
        reader(text, "f")
    assert message in str(caught.value)
    assert "fix: " in str(caught.value)


def test_exponential_aliases_raise_input_error() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join(['*' + below] * 9)}]\n"
        for below, name in zip("abcdefg", "bcdefgh", strict=True)
    )
    with pytest.raises(InputError, match="alias"):
        read_yaml(bomb, "f")


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (read_yaml, "[" + "1," * 210_000 + "1]"),
        (read_json, "[" + "1," * 1_100_000 + "1]"),
        (read_toml, "a = [" + "1," * 110_000 + "1]"),
    ],
)
def test_millions_of_values_are_refused(reader, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="values"):
        reader(text, "f")


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (read_yaml, f'? "{"x" * 5000}"\n: [[1], [2]]'),
        (read_json, f'{{"{"x" * 5000}": [[1], [2]]}}'),
    ],
)
def test_values_below_a_long_key_do_not_repeat_it(reader, text: str) -> None:  # type: ignore[no-untyped-def]
    root = reader(text, "f").root
    assert isinstance(root, Mapping)
    ((_, rows),) = root.items
    assert isinstance(rows, Sequence)
    assert all(len(row.location.path) <= 250 for row in rows.items)


def test_duplicate_keys_are_read_in_linear_time() -> None:
    keys = "".join(f"k{number}: 1\n" for number in range(20_000))
    (document,), problems = read_yaml_stream(keys + "k19999: 2\n" * 20_000, "f")
    assert len(problems) == 20_000
    assert str(document.location("k19999")) == "f:40000: k19999"
    assert [document.location(f"k{number}").line for number in range(3)] == [1, 2, 3]
    assert document.location("k19998.x[0]").line == 19_999
    with pytest.raises(InputError, match="first on line 1"):
        read_yaml("a: 1\na: 2", "f")


def test_device_without_a_size_is_not_read_for_ever() -> None:
    with pytest.raises(InputError, match="larger than 16 MiB"):
        read_file(Path("/dev/zero"))


def test_line_ends_are_read_as_in_text(tmp_path: Path) -> None:
    (tmp_path / "crlf.yaml").write_bytes(b"a: |\r\n  one\r\n  two\r\n")
    assert read_text(tmp_path / "crlf.yaml") == "a: |\n  one\n  two\n"


def test_unreadable_file_raises_input_error(tmp_path: Path) -> None:
    for name, content, message in (
        ("latin.yaml", b"name: caf\xe9", "not UTF-8 text (byte 9)"),
        ("big.yaml", b"x" * (17 << 20), "larger than 16 MiB"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
            read_file(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="is a folder"):
        read_file(tmp_path)
    with pytest.raises((InputError, ExternalError)):
        read_file(tmp_path / "latin.yaml" / "below")


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_raises_input_error(text: str) -> None:
    for reader in (read_yaml, read_toml, read_json):
        try:
            reader(text, "f")
        except InputError as error:
            assert all(problem.where.startswith("f") and problem.fix for problem in error.problems)
