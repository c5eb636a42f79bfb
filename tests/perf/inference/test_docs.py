"""The page of the serving model shows the constants that ship."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_constants_and_model_card_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location(
        "inference_reference", ROOT / "tools" / "inference_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = (ROOT / "docs" / "concepts" / "inference-model.md").read_text(encoding="utf-8")
    assert tool.renewed(page) == page, "run python tools/inference_reference.py"
    card = (ROOT / "docs" / "concepts" / "serving-model-card.md").read_text(encoding="utf-8")
    assert tool.card() == card, "run python tools/inference_reference.py"


def test_page_has_errors_of_benchmark() -> None:
    page = (ROOT / "docs" / "concepts" / "inference-model.md").read_text(encoding="utf-8")
    errors = page.split("<!-- errors -->")[1].split("<!-- /errors -->")[0]
    assert "offline throughput" in errors
    assert "models out" in errors
