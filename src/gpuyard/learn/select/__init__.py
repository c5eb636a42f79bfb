"""Selection: a search over families and parameters, by a metric, under limits; it says what it rejected and why."""

from gpuyard.learn.select.choose import Choice, choose, ranked
from gpuyard.learn.select.footprint import footprint_of
from gpuyard.learn.select.run import Export, Price, select
from gpuyard.learn.select.search import Found, search
from gpuyard.learn.select.selection import Footprint, Rejection, Selection, Trial
from gpuyard.learn.select.space import Candidate, Span, read_candidates
from gpuyard.learn.select.spec import Limits, SelectSpec

__all__ = [
    "Candidate", "Choice", "Export", "Footprint", "Found", "Limits", "Price", "Rejection", "SelectSpec", "Selection",
    "Span", "Trial", "choose", "footprint_of", "ranked", "read_candidates", "search", "select",
]  # fmt: skip
