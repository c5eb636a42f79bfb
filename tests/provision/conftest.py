"""A fake kubectl, for tests of apply and preflight."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Stores each applied object as NAMESPACE.KIND.NAME, and the arguments of every call.
SCRIPT = f"""#!{sys.executable} -IS
import json, os, sys
from pathlib import Path

state = Path(os.environ["STATE"])
words = sys.argv[1:]
with (state / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
flags = dict(word.partition("=")[::2] for word in words if word.startswith("--") and "=" in word)
names = [word for word in words if not word.startswith("-")]
if names[:2] == ["config", "get-contexts"]:
    print((state / "contexts").read_text())
    sys.exit()


def stored(namespace, kind, name):
    return state / f"{{namespace}}.{{kind}}.{{name}}.object"


if names[0] == "apply":
    if (state / "broken").exists():
        sys.exit("error: the server is away")
    if flags.get("--dry-run") == "server":
        sys.exit()
    tree = json.load(sys.stdin)
    meta = tree["metadata"]
    path = stored(meta.get("namespace", ""), tree["kind"], meta["name"])
    path.write_text(json.dumps(tree))
else:
    verb, kind, name = names
    path = stored(flags.get("--namespace", ""), kind.split(".")[0], name)
    if verb == "get" and path.exists():
        print(path.read_text())
    elif verb == "delete":
        path.unlink(missing_ok=True)
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake kubectl on the path, and its state folder."""
    state = tmp_path / "state"
    binaries = tmp_path / "bin"
    state.mkdir()
    binaries.mkdir()
    (binaries / "kubectl").write_text(SCRIPT, encoding="utf-8")
    (binaries / "kubectl").chmod(0o755)
    (state / "contexts").write_text("mine\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(state))
    return state
