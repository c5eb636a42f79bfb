"""Results of `gy.prepare`, `train`, `evaluate`, `select` and `serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from gpuyard.api.result import ApiResult
from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.learn.metrics_log import StepMetrics, read_metrics
from gpuyard.learn.select.selection import Selection
from gpuyard.learn.task import TrainResult
from gpuyard.registry.bundle import ModelBundle, read_bundle
from gpuyard.report.data import splits_table, steps_table
from gpuyard.report.evaluate import scorecard_sections, scorecard_table
from gpuyard.report.page import html_table
from gpuyard.report.plots import lines
from gpuyard.report.registry import bundle_tables
from gpuyard.report.select import selection_sections, winner_text
from gpuyard.serving.deploy import stop as stop_endpoint
from gpuyard.serving.endpoints import Endpoint


class DatasetResult(ApiResult):
    """A prepared dataset: cleaned, transformed, split and sharded."""

    __slots__ = ("prepared",)

    def __init__(self, prepared: PreparedDataset) -> None:
        self.prepared = prepared

    @property
    def folder(self) -> Path:
        """Folder of the shards and the manifest."""
        return self.prepared.folder

    def headline(self) -> str:
        manifest = self.prepared.manifest
        splits = ", ".join(f"{split.name} {split.rows}" for split in manifest.splits)
        return f"{manifest.rows_out} rows, {len(manifest.features)} features; {splits}"

    def sections(self) -> Sequence[str]:
        manifest = self.prepared.manifest
        return [html_table(splits_table(manifest)), html_table(steps_table(manifest))]

    def rows(self) -> Sequence[Mapping[str, object]]:
        frame = self.prepared.table(self.prepared.manifest.splits[0].name)
        return frame.to_dicts()

    def value(self) -> object:
        return self.prepared.manifest


class ModelResult(ApiResult):
    """A trained model and its bundle: ONNX graph, fitted transform, lineage."""

    __slots__ = ("bundle", "folder", "training")

    def __init__(self, folder: Path, training: TrainResult | None = None) -> None:
        self.folder = folder
        self.bundle: ModelBundle = read_bundle(folder)
        self.training = training

    def headline(self) -> str:
        trained = f", {self.training.steps} steps" if self.training else ""
        features = f"{len(self.bundle.features)} features"
        return f"{self.bundle.trainer}, {self.bundle.kind}, {features}{trained}"

    def sections(self) -> Sequence[str]:
        tables = [html_table(table) for table in bundle_tables(self.bundle, self.headline())]
        points = [point for point in self._metrics() if point.loss is not None]
        if len(points) < 2:
            return tables
        steps = [float(point.step) for point in points]
        losses = [point.loss or 0.0 for point in points]
        return [*tables, lines([("loss", steps, losses)], "step", "loss")]

    def _metrics(self) -> Sequence[StepMetrics]:
        """Metrics of the training, which are next to a bundle that was trained here."""
        path = self.folder.parent / "metrics.jsonl"
        return read_metrics(path) if self.training is not None and path.is_file() else ()

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(metric) for metric in self.bundle.metrics]

    def value(self) -> object:
        return self.bundle


class ScorecardResult(ApiResult):
    """Scores of a model with confidence intervals."""

    __slots__ = ("card",)

    def __init__(self, card: Scorecard) -> None:
        self.card = card

    def __getitem__(self, metric: str) -> float:
        return self.card.score(metric).value

    def headline(self) -> str:
        scores = ", ".join(f"{score.metric} {score.value:.4g}" for score in self.card.scores)
        return f"{self.card.trainer}, {self.card.method}: {scores}"

    def sections(self) -> Sequence[str]:
        return [html_table(scorecard_table(self.card)), *scorecard_sections(self.card)]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(score) for score in self.card.scores]

    def value(self) -> object:
        return self.card


class SelectionResult(ApiResult):
    """The winner of a search over trainers and hyperparameters, and the ranking."""

    __slots__ = ("model", "selection")

    def __init__(self, selection: Selection, model: ModelResult) -> None:
        self.selection = selection
        self.model = model

    def headline(self) -> str:
        return winner_text(self.selection).splitlines()[0]

    def sections(self) -> Sequence[str]:
        return selection_sections(self.selection)

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(trial) for trial in self.selection.ranking]

    def value(self) -> object:
        return self.selection


class EndpointResult(ApiResult):
    """A running service; `stop()` ends it after in-flight requests."""

    __slots__ = ("endpoint",)

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @property
    def url(self) -> str:
        """Address of the service (Open Inference Protocol)."""
        return self.endpoint.url

    def stop(self) -> None:
        """Stop the service after in-flight requests complete."""
        stop_endpoint(self.endpoint)

    def __enter__(self) -> EndpointResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def headline(self) -> str:
        return f"{', '.join(self.endpoint.models)} at {self.url}"

    def sections(self) -> Sequence[str]:
        return [f'<p><a href="{self.url}">{self.headline()}</a></p>']

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(self.endpoint)]

    def value(self) -> object:
        return self.endpoint
