"""Writes docs/reference/python.md from the rooms' façades: what each gives, with its signature and first line.

The sources are read, not imported, so that the page is the same with and without the extras.

python tools/python_reference.py            write it
python tools/python_reference.py --check    fail if it is not what the code says
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "reference" / "python.md"
# In the order of the floors: a room uses only those before it.
ROOMS = (
    "errors", "units", "document", "home", "catalog", "topology", "workload", "perf", "plan", "fabric", "simulate",
    "blueprint", "provision", "datasets", "registry", "learn", "serving", "measure", "jobs", "lab", "app", "report",
    "web",
)  # fmt: skip
_MARKED = re.compile(r"(<!-- rooms -->\n).*?(<!-- end -->)", re.DOTALL)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@functools.cache
def tree(module: str) -> ast.Module:
    """The source of a module."""
    path = file_of(module)
    assert path is not None, module
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(module: str) -> Path | None:
    """Where a module is written."""
    path = SOURCE.joinpath(*module.split("."))
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in found if file.exists()), None)


def modules(room: str) -> list[str]:
    """The façades of a room: its own, then those of its parts; of the verbs every module."""
    top = f"gpuyard.{room}"
    folder = SOURCE / "gpuyard" / room
    if not folder.is_dir():
        return [top]
    inner = [f"{top}.{path.parent.name}" for path in sorted(folder.glob("*/__init__.py"))]
    if room == "app":
        return [f"{top}.{path.stem}" for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return [top, *inner]


def public(module: str) -> list[str]:
    """The names in `__all__`."""
    for node in tree(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(value, ast.List | ast.Tuple):
            return [str(ast.literal_eval(item)) for item in value.elts]
    return []


def definition(module: str, name: str) -> Definition | None:
    """Where a name is defined: here, or in the module that it is imported from."""
    for node in tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return node
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            return node
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpuyard"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definition(node.module, alias.name)
    return None


def entries(module: str, names: list[str]) -> list[str]:
    """The names of a module as lines of a list: classes, functions, and the rest in one line."""
    classes, functions, others = [], [], []
    for name in names:
        found = definition(module, name)
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append(f"- `{signature(found)}`  \n  {said(found)}")
        elif isinstance(found, ast.ClassDef):
            classes.append(f"- class `{name}`: {said(found)}")
        else:
            others.append(f"`{name}`")
    return [*functions, *classes, *([f"- values: {', '.join(others)}"] if others else [])]


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The function's head; what begins with an underscore is nobody else's."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def said(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """The first sentence of a docstring, on one line."""
    text = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("<", "&lt;")


def rooms() -> str:
    """Every room with what it gives."""
    parts: list[str] = []
    for room in ROOMS:
        parts += [f"## {room}", ""]
        for module in modules(room):
            names = public(module)
            if module == f"gpuyard.{room}":
                parts += [_first(module), ""]
            if not names:
                continue
            if module != f"gpuyard.{room}":
                parts += [f"### {module.removeprefix('gpuyard.')}", "", _first(module), ""]
            parts += [f"`from {module} import …`", "", *entries(module, names), ""]
    return "\n".join(parts)


def _first(module: str) -> str:
    """The first paragraph of a module's docstring."""
    return " ".join((ast.get_docstring(tree(module)) or "").partition("\n\n")[0].split())


def render(page: str) -> str:
    """The page with its rooms as the code is now."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{rooms()}\n{match[2]}", page)


def main(arguments: list[str]) -> int:
    """Writes or checks the page."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = render(page)
    if "--check" not in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    if page != fresh:
        print(f"{PAGE.name} is not what the code says: run `python tools/{Path(__file__).name}`")
    return int(page != fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
