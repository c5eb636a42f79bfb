"""Evaluation: hold-out and cross-validation, metrics with intervals, slices, comparisons, learning curves."""

from gpuyard.learn.evaluate.compare import Comparison, compare, corrected_t, delong, mcnemar, paired_bootstrap
from gpuyard.learn.evaluate.fold import Answer, FoldJob, answer, answers
from gpuyard.learn.evaluate.intervals import Score, score
from gpuyard.learn.evaluate.measures import MEASURES, Measure, measures_of, usual
from gpuyard.learn.evaluate.parts import ArrayParts, Part, Parts
from gpuyard.learn.evaluate.pictures import Curve, Pictures
from gpuyard.learn.evaluate.predictions import Predictions, joined
from gpuyard.learn.evaluate.run import Evaluation, evaluate, judge
from gpuyard.learn.evaluate.scorecard import FoldOutcome, LearningPoint, Scorecard, SliceScores
from gpuyard.learn.evaluate.spec import EvaluateSpec, check_evaluate

__all__ = [
    "MEASURES", "Answer", "ArrayParts", "Comparison", "Curve", "EvaluateSpec", "Evaluation", "FoldJob", "FoldOutcome",
    "LearningPoint", "Measure", "Part", "Parts", "Pictures", "Predictions", "Score", "Scorecard", "SliceScores",
    "answer", "answers", "check_evaluate", "compare", "corrected_t", "delong", "evaluate", "joined", "judge", "mcnemar",
    "measures_of", "paired_bootstrap", "score", "usual",
]  # fmt: skip
