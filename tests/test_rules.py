"""How gpuyard is written, as tests: layers, sizes, frozen values, units in names, plain words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gpuyard"
FILES = sorted(SOURCE.rglob("*.py"))

# Imports only go down this list; packages of one layer do not import each other.
# "" is `gpuyard/__init__.py`, the public API. docs/architecture.md shows the same map.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"units", "errors", "jit"}),
    frozenset({"document", "home", "retry"}),
    frozenset({"catalog", "topology", "http"}),
    frozenset({"workload"}),
    frozenset({"perf"}),
    frozenset({"plan", "fabric"}),
    frozenset({"simulate"}),
    frozenset({"calibrate", "blueprint"}),
    frozenset({"provision", "datasets", "registry"}),
    frozenset({"learn", "serving", "measure"}),
    frozenset({"jobs", "lab"}),
    frozenset({"app"}),
    frozenset({"report"}),
    frozenset({"api", "web"}),
    frozenset({"cli"}),
    frozenset({"", "__main__"}),
)
PACKAGES = sorted(set().union(*LAYERS) - {""})
HEAVY = {
    "torch", "jax", "ray", "google.cloud", "numba", "numpy", "polars", "pandas", "scipy", "rich",
    "yaml", "pyarrow", "sklearn", "lightgbm", "optuna", "onnxruntime", "transformers", "granian",
    "cel_expr_python",
}  # fmt: skip
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 8
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "manager", "misc"}
UNIT_SUFFIXES = (
    "_bytes", "_s", "_bits_per_s", "_bytes_per_s", "_flop_per_s", "_usd", "_usd_per_hour", "_w",
    "_m", "_count", "_ratio", "_tokens",
)  # fmt: skip
# A number whose name holds one of these words is a quantity, so its name must end with its unit.
QUANTITIES = re.compile(
    r"(^|_)(memory|bandwidth|latency|duration|power|price|cost|deadline|budget|speed|timeout)(_|$)"
)
# Words that read like a translation; the right-hand side is what to write instead.
DIALECT = {
    r"\b(tells?|told|telling)\b": "show, report, print, state",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\banew\b": "again",
    r"\bso (many|much)\b": "N",
    r"\bheeds?\b": "poll, apply",
    r"\bdoomed\b": "to drop",
    r"\bbeside\b": "next to, overlapped with",
    r"\bof (its|their|your|one's) own\b": "its own, separate",
    r"\b(can|may|to) be had\b": "is available",
    r"\bthe world (refused|said)\b": "external error",
    r"\bread(s|ing)? (prompts )?apart\b": "disaggregated prefill",
    r"\b(kept|put|keeps?) apart\b": "separate, quarantined",
    r"\btaken back\b": "rolled back, deleted",
    r"\bstands? (already|in|for ever|after|there|still)\b": "exists, is",
    r"\bat the most\b": "at most",
    r"\bwhole numbers?\b": "integer",
    r"\bmatrix products?\b": "matmul, GEMM",
    r"\bmixtures? of experts\b": "MoE",
}
DIALECT_NAMES = {"each", "found", "told", "asked", "made", "kept", "said", "tell"}


def package(path: Path) -> str:
    """Return the package or top-level module that a file belongs to."""
    parts = path.relative_to(SOURCE).parts
    return "" if parts == ("__init__.py",) else parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if name in names)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            if node.module != "gpuyard" or [name.name for name in node.names] != ["__version__"]:
                yield node.module or ""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def report(violations: Iterator[str]) -> None:
    """Fail with all violations at once, not with the first."""
    lines = list(violations)
    assert not lines, f"{len(lines)} violations\n" + "\n".join(lines)


def files_of(name: str) -> list[Path]:
    return [path for path in FILES if package(path) == name]


def test_every_package_has_a_layer() -> None:
    assert {package(path) for path in FILES} <= set().union(*LAYERS)


def test_imports_go_down_the_layers() -> None:
    def violations() -> Iterator[str]:
        for path in FILES:
            here = package(path)
            for module in imports(parsed(path)):
                if module == "gpuyard" or module.startswith("gpuyard."):
                    there = module.removeprefix("gpuyard").lstrip(".").split(".")[0]
                    if there != here and (there == "" or layer(there) >= layer(here)):
                        yield f"{name_of(path)} imports {module}"

    report(violations())


def test_own_modules_are_not_imported_by_string() -> None:
    pattern = re.compile(r"import_module\(\s*f?[\"']gpuyard")
    report(
        name_of(path)
        for path in FILES
        if package(path) != "" and pattern.search(path.read_text(encoding="utf-8"))
    )


def test_packages_hold_no_facades() -> None:
    """An `__init__.py` is empty or holds definitions; nothing is imported through it."""

    def violations() -> Iterator[str]:
        for path in FILES:
            if path.name != "__init__.py" or path.parent == SOURCE:
                continue
            body = [node for node in parsed(path).body if not isinstance(node, ast.Expr)]
            defined = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
            if body and not defined:
                yield name_of(path)

    report(violations())


def test_file_names_are_nouns_of_the_domain() -> None:
    report(
        name_of(path)
        for path in FILES
        if set(path.relative_to(SOURCE).with_suffix("").parts) & FORBIDDEN_NAMES
    )


@pytest.mark.parametrize("name", PACKAGES)
def test_sizes(name: str) -> None:
    def violations() -> Iterator[str]:
        for path in files_of(name):
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > MAX_FILE_LINES:
                yield f"{name_of(path)}: {lines} lines"
            for function in functions(parsed(path)):
                length = (function.end_lineno or 0) - function.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    yield f"{name_of(path)}:{function.lineno} {function.name}: {length} lines"
                given = function.args
                count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
                own = bool(given.args) and given.args[0].arg in ("self", "cls")
                if count - own > MAX_PARAMETERS and function.name != "__init__":
                    yield f"{name_of(path)}:{function.lineno} {function.name}: {count} parameters"

    report(violations())


@pytest.mark.parametrize("name", PACKAGES)
def test_public_functions_have_docstrings(name: str) -> None:
    def violations() -> Iterator[str]:
        for path in files_of(name):
            tree = parsed(path)
            public = [
                *(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)),
            ]
            for node in public:
                decorators = [ast.unparse(item) for item in node.decorator_list]
                if "overload" in decorators:
                    continue
                if not node.name.startswith("_") and not ast.get_docstring(node):
                    yield f"{name_of(path)}:{node.lineno} {node.name}"

    report(violations())


@pytest.mark.parametrize("name", PACKAGES)
def test_format_is_not_skipped_outside_tables(name: str) -> None:
    """`# fmt: skip` closes a table of data: an assignment at module or class level."""

    def violations() -> Iterator[str]:
        for path in files_of(name):
            lines = path.read_text(encoding="utf-8").splitlines()
            tables = {
                node.end_lineno
                for parent in [
                    parsed(path),
                    *(n for n in parsed(path).body if isinstance(n, ast.ClassDef)),
                ]
                for node in parent.body
                if isinstance(node, ast.Assign | ast.AnnAssign)
            }
            for number, line in enumerate(lines, start=1):
                if "# fmt: " in line and number not in tables:
                    yield f"{name_of(path)}:{number}"

    report(violations())


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a file with their lines, without former names of keys."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if "FormerName(" not in token.line and (
                token.type == tokenize.COMMENT
                or token.type == tokenize.STRING
                or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1)
            ):
                yield token.start[0], token.string


@pytest.mark.parametrize("name", PACKAGES)
def test_words_are_plain(name: str) -> None:
    patterns = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in DIALECT.items()]

    def violations() -> Iterator[str]:
        for path in files_of(name):
            for number, text in prose(path):
                for pattern, better in patterns:
                    if match := pattern.search(text):
                        yield f'{name_of(path)}:{number} "{match[0]}": write {better}'

    report(violations())


@pytest.mark.parametrize("name", PACKAGES)
def test_variables_are_named_for_what_they_hold(name: str) -> None:
    def violations() -> Iterator[str]:
        for path in files_of(name):
            for node in ast.walk(parsed(path)):
                names: list[str] = []
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names = [node.id]
                elif isinstance(node, ast.arg):
                    names = [node.arg]
                elif isinstance(node, ast.FunctionDef):
                    names = [node.name.lstrip("_")]
                for found_name in names:
                    if found_name in DIALECT_NAMES:
                        yield f"{name_of(path)}:{node.lineno} {found_name}"

    report(violations())


def test_public_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(path))
    report(f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1)


def test_values_are_frozen_and_name_their_units() -> None:
    def violations() -> Iterator[str]:
        for path in FILES:
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ClassDef):
                    yield from (f"{name_of(path)} {problem}" for problem in class_problems(node))

    report(violations())


def class_problems(node: ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        text = ast.unparse(decorator)
        if text.startswith("dataclass") and "frozen=True, slots=True, kw_only=True" not in text:
            yield f"{node.name}: {text}"
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name, kind = line.target.id, ast.unparse(line.annotation)
            number = re.match(r"(Annotated\[)?(float|int)\b", kind)
            if number and QUANTITIES.search(name) and not name.endswith(UNIT_SUFFIXES):
                yield f"{node.name}.{name}: no unit"
            if re.search(r"dict\[str, (typing\.)?Any\]", kind):
                yield f"{node.name}.{name}: untyped"


def test_signatures_are_typed() -> None:
    def violations() -> Iterator[str]:
        for path in FILES:
            for function in functions(parsed(path)):
                for argument in (*function.args.args, *function.args.kwonlyargs):
                    kind = ast.unparse(argument.annotation) if argument.annotation else ""
                    if "Any]" in kind.replace("type[Any]", ""):
                        yield f"{name_of(path)} {function.name}({argument.arg}: {kind})"

    report(violations())


def test_bits_become_bytes_in_one_place() -> None:
    pattern = re.compile(r"bits\w*\s*/\s*8\b|bits\w*\s*\*\s*0\.125")
    report(
        f"{name_of(path)}:{number}"
        for path in FILES
        if path.name != "units.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    )


def test_packages_have_tests() -> None:
    names = {package(path) for path in FILES} - {"", "__main__"}
    missing = {
        name
        for name in names
        if not (ROOT / "tests" / name).is_dir()
        and not (ROOT / "tests" / f"test_{name}.py").is_file()
    }
    assert not missing


def modules_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import gpuyard",
        "from gpuyard.cli.main import main; main(['--help'])",
        "from gpuyard.cli.main import main; main(['nonsense'])",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    loaded = {name for name in modules_after(code) if not name.startswith("error")}
    assert not loaded & HEAVY


EXAMPLES = ROOT / "examples"
COMMANDS_WITHOUT_NUMBA = (
    ("check", str(EXAMPLES / "inference.yaml")),
    ("plan", str(EXAMPLES / "pretraining.yaml"), "--json"),
    ("plan", str(EXAMPLES / "hpc.yaml"), "--json"),
    ("fabric", "design", "--gpus", "256", "--switch", "qfx5240-64od", "--json"),
    ("provision", str(EXAMPLES / "pretraining.yaml"), "--on", "gke", "-o", "OUT", "--json"),
)


@pytest.mark.parametrize(
    "words", COMMANDS_WITHOUT_NUMBA, ids=lambda words: f"{words[0]} {Path(words[1]).stem}"
)
def test_commands_that_simulate_nothing_do_not_import_numba(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    own = [str(tmp_path) if word == "OUT" else word for word in words]
    code = f"from gpuyard.cli.main import main; assert main({own!r}) == 0"
    assert not modules_after(code) & {"numba", "llvmlite", "gpuyard.jit"}


@pytest.mark.parametrize(
    "module",
    [
        "api.fabrics", "api.models", "api.planning", "app.plan", "app.provision", "app.run",
        "app.serve", "app.up", "datasets.prepare", "fabric.verify.verify", "learn.fit",
        "serving.server", "simulate.serving.simulate", "web.server",
    ],
)  # fmt: skip
def test_modules_do_not_import_numba_before_they_call_a_kernel(module: str) -> None:
    assert "numba" not in modules_after(f"import gpuyard.{module}")


def test_core_depends_on_no_framework() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    core = text.split("dependencies = [", 1)[1].split("]", 1)[0]
    names = {
        re.split(r"[<>=!~\[ ]", line.strip().strip('",'))[0].lower()
        for line in core.splitlines()
        if line.strip()
    }
    assert not names & {
        "torch",
        "jax",
        "ray",
        "google-cloud-storage",
        "google-cloud-compute",
        "tensorflow",
    }
    assert len(names) <= 8
