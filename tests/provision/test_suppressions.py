"""Comments that silence findings: which line and which rules they apply to."""

from __future__ import annotations

import pytest

from gpuyard.errors import Finding
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.suppressions import Place, place_of, without_ignored


def finding(line: int, rule: str = "one", file: str = "a/x.yaml") -> Finding:
    return Finding(rule=rule, severity="error", where=f"{file}:{line}: spec.a", what="wrong")


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("a/x.yaml:12: spec.a[0]", Place(file="a/x.yaml", line=12)),
        ("a/x.yaml: spec", Place(file="a/x.yaml")),
        ("x.sbatch:3", Place(file="x.sbatch", line=3)),
        ("chart (helm template):7: spec", Place(file="chart (helm template)", line=7)),
        ("x.yaml", Place(file="x.yaml")),
    ],
)
def test_place_is_read_from_a_finding(where: str, place: Place) -> None:
    assert place_of(Finding(rule="r", severity="note", where=where, what="w")) == place


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a: 1\nb: 2\n", [1, 2]),
        ("a: 1  # gpuyard: ignore[one]\nb: 2\n", [2]),
        ("a: 1  # gpuyard: ignore[two]\nb: 2\n", [1, 2]),
        ("a: 1  # gpuyard: ignore[two, one]\nb: 2\n", [2]),
        ("a: 1  # gpuyard: ignore\nb: 2\n", [2]),
        ("# gpuyard: ignore[one]\nb: 2\n", [1]),
        ("# gpuyard: ignore-file[one]\nb: 2\n", []),
        ("# gpuyard: ignore-file\nb: 2\n", []),
    ],
)
def test_comment_silences_its_line_the_next_or_the_file(text: str, kept: list[int]) -> None:
    rows = (finding(1), finding(2))
    result, count = without_ignored(rows, [Artefact(name="a/x.yaml", text=text)])
    assert [place_of(row).line for row in result] == kept
    assert count == 2 - len(kept)


def test_comment_of_another_file_silences_nothing() -> None:
    other = Artefact(name="a/y.yaml", text="# gpuyard: ignore-file\n")
    assert without_ignored([finding(1)], [other]) == ((finding(1),), 0)
