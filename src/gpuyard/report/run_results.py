"""Results of a run as page sections: the champion first, then how it was chosen."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from gpuyard.app.up_report import RunResults
from gpuyard.report.evaluate import scorecard_sections
from gpuyard.report.select import selection_sections


def results_sections(results: RunResults) -> list[str]:
    """Sections: the champion's scores and curves, the selection, the model of the train stage."""
    champion, trained = results.champion, results.trained
    sections = []
    if champion is not None:
        sections += [f"<h2>Champion: {escape(champion.trainer)}</h2>"]
        sections += scorecard_sections(replace(champion, method="test split"))  # not its folder
    if results.selection is not None:
        sections += [f"<h2>Selection</h2>{''.join(selection_sections(results.selection))}"]
    if trained is not None and champion is not None:
        inside = "".join(scorecard_sections(trained))
        words = f"Model of the train stage: {trained.trainer}, {trained.method}"
        sections.append(f"<details><summary>{escape(words)}</summary>{inside}</details>")
    elif trained is not None:
        sections += [f"<h2>Trained: {escape(trained.trainer)}</h2>", *scorecard_sections(trained)]
    return sections
