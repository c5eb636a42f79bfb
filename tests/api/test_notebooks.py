"""Every notebook of the documentation runs from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient").NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    outputs = [output for cell in client.nb.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in outputs)


def test_there_is_a_notebook_for_every_reader() -> None:
    assert {path.stem for path in NOTEBOOKS} == {
        "data-to-model", "fabric", "plan-serving", "plan-training",
    }  # fmt: skip
