"""Model management: training behind one seam, evaluation, selection."""

from gpuyard.learn.fit import fit, fit_data
from gpuyard.learn.metrics_log import StepMetrics, read_metrics
from gpuyard.learn.ranks import Ranks, ranks_of
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import FoldOf, TrainResult, TrainTask, read_result, read_task, write_task
from gpuyard.learn.trainer import Fitted, Summary, Table, Tokens, Trainer, Training, trainer_for

__all__ = [
    "Fitted", "FoldOf", "Ranks", "StepMetrics", "Summary", "Table", "Tokens", "TrainResult", "TrainSpec", "TrainTask",
    "Trainer", "Training", "fit", "fit_data", "ranks_of", "read_metrics", "read_result", "read_task", "trainer_for",
    "trainer_of", "write_task",
]  # fmt: skip
