"""The pages that compare artefacts with public references say what is rendered now."""

from __future__ import annotations

import copy
import tomllib

import pytest

from artefact_pages import DATA, ROOT, page

REFERENCES = tomllib.loads(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(REFERENCES["pages"]))
def test_artefact_page_is_up_to_date(name: str) -> None:
    path = ROOT / "docs" / "reference" / f"artefacts-{name}.md"
    assert path.read_text(encoding="utf-8") == page(name, REFERENCES)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reference": "other"}, "a difference without a reason"),
        ({"why": "because"}, "a reason without a difference"),
    ],
)
def test_unexplained_difference_and_stale_reason_are_errors(
    change: dict[str, str], problem: str
) -> None:
    changed = copy.deepcopy(REFERENCES)
    changed["pages"]["slurm"]["rows"][0] |= change
    with pytest.raises(ValueError, match=problem):
        page("slurm", changed)
