"""The source runs no code from data: no pickle, eval, unsafe YAML or PyTorch loads, no shell; durations are monotonic."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from audit import verdict
from sbom import bill_of_materials

SOURCE = Path(__file__).parent.parent / "src" / "gpuyard"
# jit.py names the error of Numba's own cache, which is read from private directories only.
MODULES = {"pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
ALLOWED_IMPORTS = {("jit.py", "pickle")}
BUILTINS = {"eval", "exec", "compile"}
USER_CODE = {"datasets/user_code.py"}  # steps and processing that a user wrote, checked by digest
WALL_CLOCK = {"http.py"}  # Retry-After may be a date
YAML = {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load"}


def problems(tree: ast.AST, name: str) -> Iterator[str]:
    """Yield each unsafe construct of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
        else:
            imported = []
        for module in imported:
            root = module.split(".")[0]
            if root in MODULES and (name, root) not in ALLOWED_IMPORTS:
                yield f"{name}:{node.lineno} imports {module}"  # type: ignore[attr-defined]
        if isinstance(node, (ast.BinOp, ast.Compare)) and name not in WALL_CLOCK:
            yield from (f"{name}:{node.lineno} {what}" for what in clock_problems(node))
        if isinstance(node, ast.Call) and not (
            name in USER_CODE and ast.unparse(node.func) in BUILTINS
        ):
            yield from (f"{name}:{node.lineno} {what}" for what in call_problems(node))


def clock_problems(node: ast.BinOp | ast.Compare) -> Iterator[str]:
    """Yield why an expression is wrong once the host's clock is set."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
    else:
        operands = [node.left, node.right] if isinstance(node.op, (ast.Add, ast.Sub)) else []
    if any(ast.unparse(operand) == "time.time()" for operand in operands):
        yield "a duration by time.time(): use time.monotonic()"


def call_problems(call: ast.Call) -> Iterator[str]:
    """Yield why a call is unsafe."""
    target = ast.unparse(call.func)
    keywords = {item.arg: ast.unparse(item.value) for item in call.keywords if item.arg}
    if target in BUILTINS or target in ("os.system", "os.popen", "pickle.loads", "pickle.load"):
        yield target
    if keywords.get("shell", "False") != "False":
        yield f"{target} with shell"
    loader = keywords.get("Loader", "") + "".join(ast.unparse(item) for item in call.args[1:])
    if target in YAML and not ("Safe" in loader and target in ("yaml.load", "yaml.load_all")):
        yield target
    if target == "torch.load" and keywords.get("weights_only") != "True":
        yield "torch.load without weights_only"
    if target.endswith((".load", "np.load")) and keywords.get("allow_pickle", "False") != "False":
        yield f"{target} with allow_pickle"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_source_runs_no_code_from_data(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert list(problems(tree, str(path.relative_to(SOURCE)))) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from joblib import load", "eval(x)", "os.system(x)", "yaml.load(x)",
        "yaml.load(x, Loader=yaml.Loader)", "torch.load(x)", "torch.load(x, weights_only=False)",
        "subprocess.run(x, shell=True)", "np.load(x, allow_pickle=True)",
    ],
)  # fmt: skip
def test_unsafe_construct_is_detected(code: str) -> None:
    assert list(problems(ast.parse(code), "x.py"))


def test_audit_without_data_is_no_verdict() -> None:
    skipped = {"name": "numpy", "skip_reason": "not found on the index"}
    clean = {"name": "numpy", "version": "2.0", "vulns": []}
    bad = {"name": "numpy", "version": "2.0", "vulns": [{"id": "X-1", "fix_versions": ["2.1"]}]}
    assert verdict({"dependencies": [skipped]})[0] == 2
    assert verdict({"dependencies": []})[0] == 2
    assert verdict({"dependencies": [clean, skipped]})[0] == 0
    code, lines = verdict({"dependencies": [bad]})
    assert (code, lines) == (1, ["numpy 2.0: X-1 (fixed in 2.1)"])


def test_bill_of_materials_names_every_package_but_ours() -> None:
    packages = [
        {"metadata": {"name": "PyYAML", "version": "6.0", "license_expression": "MIT"}},
        {"metadata": {"name": "gpuyard", "version": "0.1", "license": "MIT"}},
    ]
    bill = bill_of_materials({"installed": packages})  # type: ignore[dict-item]
    assert [row["purl"] for row in bill["components"]] == ["pkg:pypi/pyyaml@6.0"]  # type: ignore[index,union-attr,call-overload]
    assert bill["metadata"]["component"]["name"] == "gpuyard"  # type: ignore[index,call-overload]
