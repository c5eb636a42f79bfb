"""`gpuyard examples` and `gpuyard init EXAMPLE`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_list_names_every_file_of_the_folder(run_json: Callable[..., Any]) -> None:
    listed = {
        file for example in run_json("examples", "list")["examples"] for file in example["files"]
    }
    folder = {
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.rglob("*")
        if path.is_file() and ".gpuyard" not in path.parts
    }
    assert listed == folder


def test_copy_keeps_contents_and_does_not_overwrite(
    tmp_path: Path, run_json: Callable[..., Any]
) -> None:
    words = ("examples", "copy", "quickstart", "-o", str(tmp_path))
    assert len(run_json(*words)["files"]) == 2
    copied = tmp_path / "quickstart" / "workload.yaml"
    assert copied.read_bytes() == (EXAMPLES / "quickstart" / "workload.yaml").read_bytes()
    assert main(list(words)) == 2
    assert main([*words, "--force"]) == 0


def test_unknown_example_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "copy", "quickstrat"]) == 2
    assert 'did you mean "quickstart"?' in capsys.readouterr().err


def test_init_writes_an_example_that_names_its_own_path(tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    assert main(["init", "quickstart", str(target)]) == 0
    assert f"gpuyard up {target}" in target.read_text(encoding="utf-8")
    assert main(["check", str(target)]) == 0


def test_init_refuses_an_example_of_several_files(tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    assert main(["init", "own-script-slurm", str(target)]) == 2
    assert not target.exists()
