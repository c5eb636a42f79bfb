"""How gpuyard is written, as tests: floors, sizes, frozen values, units in names, a light core."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gpuyard"
FILES = sorted(SOURCE.rglob("*.py"))

# Imports only go down this list; rooms on one floor do not import each other. "" is the package itself.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"", "units", "errors", "compiled"}),
    frozenset({"document", "home"}),
    frozenset({"catalog", "topology"}),
    frozenset({"workload"}),
    frozenset({"perf"}),
    frozenset({"plan", "fabric", "simulate"}),
    frozenset({"blueprint"}),
    frozenset({"provision", "datasets", "registry"}),
    frozenset({"learn", "serving", "measure"}),
    frozenset({"jobs", "lab"}),
    frozenset({"app", "report"}),
    frozenset({"cli", "web"}),
    frozenset({"__main__"}),
)
HEAVY = (
    "torch", "jax", "ray", "google.cloud", "numba", "numpy", "polars", "pandas", "scipy", "rich", "yaml", "pyarrow",
    "sklearn", "lightgbm", "optuna", "onnxruntime", "transformers", "granian",
)  # fmt: skip
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_FACADE_LINES = 40
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "manager", "misc"}
UNIT_SUFFIXES = (
    "_bytes", "_s", "_bits_per_s", "_bytes_per_s", "_flop_per_s", "_usd", "_usd_per_hour", "_w", "_m",
    "_count", "_ratio", "_tokens",
)  # fmt: skip
# A number whose name holds one of these words is a quantity, so its name must end with its unit.
QUANTITIES = re.compile(r"(^|_)(memory|bandwidth|latency|duration|power|price|cost|deadline|budget|speed|timeout)(_|$)")


def room(path: Path) -> str:
    """The room that a file belongs to."""
    parts = path.relative_to(SOURCE).parts
    return "" if parts == ("__init__.py",) else parts[0].removesuffix(".py")


def floor(name: str) -> int:
    """The floor of a room."""
    return next(level for level, rooms in enumerate(FLOORS) if name in rooms)


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module or ""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_file(path: Path) -> None:
    tree, text, here = parsed(path), path.read_text(encoding="utf-8"), room(path)
    lines = text.count("\n")
    assert any(here in rooms for rooms in FLOORS), f"{here}: not on the list of rooms"
    assert lines <= MAX_FILE_LINES, f"{lines} lines: is there a second noun in it?"
    assert path.stem not in FORBIDDEN_NAMES
    assert not set(path.relative_to(SOURCE).parts) & FORBIDDEN_NAMES
    if path.name == "__init__.py":
        assert lines <= MAX_FACADE_LINES, "a façade only re-exports"
        assert "__all__" in text
    for module in imports(tree):
        if module == "gpuyard" or module.startswith("gpuyard."):
            there = module.removeprefix("gpuyard").lstrip(".").split(".")[0]
            assert there == here or floor(there) < floor(here), f"{here} must not import {there}"
    for function in functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{function.name}: {length} lines"
        public = not function.name.startswith("_")
        stub = isinstance(function.body[-1], ast.Expr) and ast.unparse(function.body[-1]) == "..."
        assert not public or stub or ast.get_docstring(function) or _overrides(function), (
            f"{function.name}: no docstring"
        )
        inner = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any(name.startswith("gpuyard") for node in inner for name in imports(node)), (
            f"{function.name}: import"
        )


def _overrides(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A method whose meaning a base class of the standard library gives."""
    return function.name in {"error"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_values_are_frozen_and_name_their_units(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            text = ast.unparse(decorator)
            if text.startswith("dataclass"):
                assert "frozen=True, slots=True, kw_only=True" in text, f"{node.name}: {text}"
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                name, kind = line.target.id, ast.unparse(line.annotation)
                number = re.match(r"(Annotated\[)?(float|int)\b", kind)
                if number and QUANTITIES.search(name):
                    assert name.endswith(UNIT_SUFFIXES), f"{node.name}.{name}: no unit"
                assert not re.search(r"dict\[str, (typing\.)?Any\]", kind), f"{node.name}.{name}: untyped"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_signatures_are_typed(path: Path) -> None:
    for function in functions(parsed(path)):
        for argument in (*function.args.args, *function.args.kwonlyargs):
            kind = ast.unparse(argument.annotation) if argument.annotation else ""
            assert "Any]" not in kind.replace("type[Any]", ""), f"{function.name}({argument.arg}: {kind})"


def test_bits_become_bytes_in_one_place() -> None:
    for path in FILES:
        if path.name == "units.py":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            assert not re.search(r"bits\w*\s*/\s*8\b|bits\w*\s*\*\s*0\.125", line), f"{path}:{number}"


def test_rooms_have_tests() -> None:
    rooms = {room(path) for path in FILES} - {"", "__main__"}
    for name in sorted(rooms):
        assert (ROOT / "tests" / name).is_dir() or (ROOT / "tests" / f"test_{name}.py").is_file(), name


def _modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import gpuyard",
        "from gpuyard.cli import main; main(['--help'])",
        "from gpuyard.cli import main; main(['nonsense'])",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    loaded = {name for name in _modules_after(code) if not name.startswith("error")}
    assert not loaded & set(HEAVY)


def test_the_core_depends_on_no_framework() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    core = text.split("dependencies = [", 1)[1].split("]", 1)[0]
    names = {re.split(r"[<>=!~\[ ]", line.strip().strip('",'))[0].lower() for line in core.splitlines() if line.strip()}
    assert not names & {"torch", "jax", "ray", "google-cloud-storage", "google-cloud-compute", "tensorflow"}
    assert len(names) <= 8
