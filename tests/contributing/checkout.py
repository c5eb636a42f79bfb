"""A copy of the package, edited as a recipe of CONTRIBUTING.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gpuyard

PACKAGE = Path(gpuyard.__file__).parent
CONTRIBUTING = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


class Checkout:
    """The package in a folder; only files that the recipe names can be written."""

    def __init__(self, root: Path, recipe: str) -> None:
        self.root = root
        section = CONTRIBUTING.split(f"\n## {recipe}\n", 1)[1].split("\n## ", 1)[0]
        paths = re.findall(r"`(src/gpuyard/[^`]+)`", section)
        self._paths = tuple(path.replace("<name>", "toy") for path in paths)
        shutil.copytree(
            PACKAGE, root / "src" / "gpuyard", ignore=shutil.ignore_patterns("__pycache__")
        )

    def write(self, path: str, text: str) -> None:
        """Write a new file."""
        file = self._file(path)
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        assert not file.exists()
        file.write_text(text, encoding="utf-8")

    def insert(self, path: str, before: str, text: str) -> None:
        """Insert text before a line of a file."""
        file = self._file(path)
        source = file.read_text(encoding="utf-8")
        assert source.count(before) == 1, before
        file.write_text(source.replace(before, text + before), encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        """Append text to a file."""
        with self._file(path).open("a", encoding="utf-8") as file:
            file.write(text)

    def run(self, *arguments: str) -> str:
        """Return the output of Python with this copy of the package; fails if it fails."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_DISABLE_JIT": "1",  # compiling takes longer than these small cases
        }
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _file(self, path: str) -> Path:
        assert any(
            path == named or (named.endswith("/") and path.startswith(named))
            for named in self._paths
        ), f"{path}: the recipe names {self._paths}"
        return self.root / path
