"""The examples of the page on fabrics give what the page says."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "concepts" / "fabric.md"


def test_examples_in_the_docs_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
